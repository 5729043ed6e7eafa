/** The Connect library's own client, which knows nothing of our server, in both codecs. */
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { Code, ConnectError, createClient } from '@connectrpc/connect'
import { compressionGzip, createConnectTransport } from '@connectrpc/connect-node'
import { Filesystem, FileType } from '../../contract/rpc/filesystem_pb.ts'
import { Process } from '../../contract/rpc/process_pb.ts'
import { collect, token, useAgent } from '../agent-suite.ts'

const agent = useAgent()

function clients(useBinaryFormat: boolean, more: { sendCompression?: typeof compressionGzip } = {}) {
  const transport = createConnectTransport({
    baseUrl: `http://127.0.0.1:${agent.port}`,
    httpVersion: '1.1',
    useBinaryFormat,
    compressMinBytes: 0,
    interceptors: [
      (next) => (request) => {
        request.header.set('x-access-token', token)
        return next(request)
      },
    ],
    ...more,
  })
  return { processes: createClient(Process, transport), filesystem: createClient(Filesystem, transport) }
}

const codeOf = (work: Promise<unknown>): Promise<Code | undefined> =>
  work.then(
    () => undefined,
    (error: unknown) => (error instanceof ConnectError ? error.code : Code.Unknown),
  )

const shell = (command: string, more = {}) => ({
  process: { cmd: '/bin/sh', args: ['-c', command], envs: {} },
  stdin: false,
  ...more,
})

for (const isBinary of [false, true]) {
  suite(`a client of the Connect library that sends ${isBinary ? 'binary messages' : 'JSON'}`, () => {
    test('reads the events of a process, whatever its output holds', async () => {
      const { processes } = clients(isBinary)
      for (const pause of ['', 'sleep 0.1;']) {
        const events = await collect(processes.start(shell(`printf '\\303\\244\\377\\0x'; ${pause} exit 5`)))
        const [start, data, end] = events.map(({ event }) => event!.event)
        assert.ok(start?.case === 'start' && data?.case === 'data' && end?.case === 'end')
        assert.deepEqual([...data.value.output.value!], [0xc3, 0xa4, 0xff, 0, 0x78])
        assert.deepEqual([end.value.exitCode, end.value.error], [5, 'exit status 5'])
      }
    })

    test('reads answers with letters beyond ASCII', async () => {
      const { filesystem } = clients(isBinary)
      const path = `${agent.folder}/żółć-${isBinary}`
      await filesystem.makeDir({ path })
      const { entry } = await filesystem.stat({ path })
      assert.deepEqual([entry?.path, entry?.type], [path, FileType.DIRECTORY])
      const names = (await filesystem.listDir({ path: agent.folder })).entries.map(({ name }) => name)
      assert.ok(names.includes(`żółć-${isBinary}`))
    })

    test('gets failures by their codes, in single calls and in streams', async () => {
      const { processes, filesystem } = clients(isBinary)
      assert.equal(await codeOf(filesystem.stat({ path: '/ż/none' })), Code.NotFound)
      const selected = { process: { selector: { case: 'pid' as const, value: 999_999 } } }
      assert.equal(await codeOf(collect(processes.connect(selected))), Code.NotFound)
      assert.equal(await codeOf(processes.closeStdin(selected)), Code.NotFound)
      assert.equal(await codeOf(collect(processes.start({}))), Code.InvalidArgument)
    })

    test('sends a stream of input', async () => {
      const { processes } = clients(isBinary)
      const events = processes.start(shell('cat', { stdin: true }))[Symbol.asyncIterator]()
      const { event } = (await events.next()).value!.event!
      assert.ok(event.case === 'start')
      const process = { selector: { case: 'pid' as const, value: event.value.pid } }
      await processes.streamInput(
        (async function* () {
          yield { event: { case: 'start' as const, value: { process } } }
          for (const text of ['one ', 'two']) {
            const input = { input: { case: 'stdin' as const, value: Buffer.from(text) } }
            yield { event: { case: 'data' as const, value: { input } } }
          }
        })(),
      )
      await processes.closeStdin({ process })
      let text = ''
      for await (const { event } of { [Symbol.asyncIterator]: () => events }) {
        if (event?.event.case === 'data') text += Buffer.from(event.event.value.output.value!).toString()
      }
      assert.equal(text, 'one two')
    })

    test('has its process killed when its time is over', async () => {
      const { processes } = clients(isBinary)
      const work = collect(processes.start(shell('sleep 60'), { timeoutMs: 100 }))
      assert.equal(await codeOf(work), Code.DeadlineExceeded)
    })

    test('gets an error if it compresses its requests', async () => {
      const { processes, filesystem } = clients(isBinary, { sendCompression: compressionGzip })
      assert.equal(await codeOf(filesystem.stat({ path: '/' })), Code.Unimplemented)
      assert.equal(await codeOf(collect(processes.start(shell('true')))), Code.Unimplemented)
    })
  })
}

suite('an unusual Connect request', () => {
  const path = '/process.Process/List'

  test('with another method is rejected', async () => {
    assert.equal((await agent.fetch('GET', path)).status, 405)
  })

  test('with a content type of another kind of call is rejected', async () => {
    for (const type of ['text/plain', 'application/connect+json', 'application/jsonx']) {
      assert.equal((await agent.fetch('POST', path, { 'content-type': type }, '{}')).status, 415, type)
    }
    const headers = { 'content-type': 'application/json' }
    assert.equal((await agent.fetch('POST', '/process.Process/Start', headers, '{}')).status, 415)
  })

  test('with a character set in its content type is served', async () => {
    const headers = { 'content-type': 'application/json; charset=UTF-8' }
    assert.equal((await agent.fetch('POST', path, headers, '{}')).status, 200)
  })
})

suite('the answer for a process', () => {
  test('has a length and is sent whole if the process ends at once', async () => {
    for (let tries = 0; ; tries++) {
      const response = await agent.open(
        'POST',
        '/process.Process/Start',
        { 'content-type': 'application/connect+json', 'x-access-token': token },
        startBody('/bin/true'),
      )
      const bytes = Buffer.concat(await collect(response as AsyncIterable<Buffer>))
      // On a busy machine even this may take longer than a short process.
      if (response.headers['content-length'] === undefined && tries < 50) continue
      assert.equal(Number(response.headers['content-length']), bytes.length)
      return
    }
  })
})

function startBody(cmd: string): Buffer {
  const message = Buffer.from(JSON.stringify({ process: { cmd }, stdin: false }))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}
