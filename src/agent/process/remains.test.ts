import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { create } from '@bufbuild/protobuf'
import { ProcessSelectorSchema } from '../../contract/rpc/process_pb.ts'
import { begin, collect, decode, endOf, type Json, shell, useAgent } from '../agent-suite.ts'
import { ProcessTable } from './process-table.ts'
import { RunningProcess } from './running-process.ts'

const agent = useAgent()

async function connect(selector: Json) {
  const seen = await collect(agent.stream('process.Process/Connect', { process: selector }))
  const events = seen.map(({ message }) => (message.event ?? {}) as Record<string, Json>)
  const joined = (name: string) => events.map(({ data }) => decode(data?.[name])).join('')
  return {
    kinds: events.map((event) => Object.keys(event)[0] ?? 'eos'),
    stdout: joined('stdout'),
    stderr: joined('stderr'),
    pty: joined('pty'),
    end: events.find(({ end }) => end)?.end,
  }
}

const selectPid = (value: number) => create(ProcessSelectorSchema, { selector: { case: 'pid', value } })

suite('the remains of a process that has ended', () => {
  test('include the start, the last output and the end for a late Connect', async () => {
    const { pid } = await agent.run('echo out; echo err >&2; exit 3')
    const late = await connect({ pid: pid! })
    assert.deepEqual(late.kinds, ['start', 'data', 'data', 'end', 'eos'])
    assert.deepEqual([late.stdout, late.stderr, late.end?.exitCode], ['out\n', 'err\n', 3])
  })

  test('can be read again and again, also by tag', async () => {
    await agent.run('echo kept', { request: { tag: 'job' } })
    for (let i = 0; i < 3; i++) assert.equal((await connect({ tag: 'job' })).stdout, 'kept\n')
  })

  test('include the last 64 KiB of long output', async () => {
    const { pid } = await agent.run('head -c 1000000 /dev/zero | tr "\\0" a; echo end')
    const { stdout } = await connect({ pid: pid! })
    assert.equal(stdout, `${'a'.repeat(65_532)}end\n`)
  })

  test('exist even if nobody has read the output', async () => {
    const { pid, stream } = await begin(agent, shell('read x; echo unseen', { stdin: true }))
    await stream.return(undefined)
    const watcher = agent.stream('process.Process/Connect', { process: { pid } })
    await watcher.next()
    await agent.unary('process.Process/CloseStdin', { process: { pid } })
    await endOf(watcher)
    assert.equal((await connect({ pid })).stdout, 'unseen\n')
  })

  test('include the output of a terminal', async () => {
    const { pid, stream } = await begin(agent, shell('echo shown', { pty: {} }))
    await endOf(stream)
    assert.equal((await connect({ pid })).pty, 'shown\r\n')
  })

  test('do not hide a running process that has the same pid by now', () => {
    const table = new ProcessTable()
    const config = { cmd: 'x', args: [], envs: {} }
    const [old, young] = ['old', 'young'].map(
      (tag) => new RunningProcess(7, config, tag, { outputs: [] }, table),
    )
    table.add(old!)
    table.add(young!)
    old!.exited(0, null)
    assert.equal(table.find(selectPid(7)), young)
    assert.equal(table.findOrEnded(selectPid(7)), young)
    young!.exited(0, null)
    assert.deepEqual(table.running(), [])
  })

  test('are bounded in total: the oldest output is dropped first, and the ends stay known', async () => {
    const first = await agent.run('head -c 65536 /dev/zero')
    for (let i = 0; i < 70; i++) await agent.run('head -c 65536 /dev/zero')
    const last = await agent.run('echo last; exit 4')
    const oldest = await connect({ pid: first.pid! })
    assert.deepEqual(oldest.kinds, ['start', 'end', 'eos'])
    assert.equal((await connect({ pid: last.pid! })).stdout, 'last\n')
  })
})
