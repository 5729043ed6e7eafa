/** Sandboxes as tools of the Model Context Protocol, through the protocol's own client: over stdio and over HTTP. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { anyIsolation, joinWarren, type Warren } from '../support/warren.ts'

type Answer = { content: { type: string; text: string }[]; isError?: boolean }

const warrenCommand = join(import.meta.dirname, '../../bin/warren')

describe('tools of the Model Context Protocol', () => {
  let warren: Warren
  let overStdio: Client
  let overHttp: Client
  before(async () => {
    warren = await joinWarren(anyIsolation)
    const { apiKey } = warren.client
    const env = { PATH: process.env.PATH!, E2B_API_KEY: apiKey, E2B_API_URL: warren.url }
    overStdio = await connected(new StdioClientTransport({ command: warrenCommand, args: ['mcp'], env }))
    overHttp = await connected(httpTransport(apiKey))
  })
  after(async () => {
    await overStdio?.close()
    await overHttp?.close()
    await warren?.stop()
  })

  function httpTransport(key: string): Transport {
    const requestInit = { headers: { Authorization: `Bearer ${key}` } }
    return new StreamableHTTPClientTransport(new URL('/mcp', warren.url), { requestInit }) as Transport
  }

  async function connected(transport: Transport): Promise<Client> {
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(transport)
    return client
  }

  async function use(client: Client, name: string, given: object = {}): Promise<[string, boolean]> {
    const { content, isError } = (await client.callTool({ name, arguments: { ...given } })) as Answer
    return [content[0]!.text, isError === true]
  }

  const idIn = (text: string) => /\bi[a-z0-9]{20}\b/g.exec(text.replace(/.*: /s, ''))![0]

  it('are the same both ways, each with a description and a schema', async () => {
    const [one, other] = [await overStdio.listTools(), await overHttp.listTools()]
    assert.deepEqual(one, other)
    assert.deepEqual(one.tools.map(({ name }) => name).sort(), [
      ...['create_sandbox', 'fork_sandbox', 'get_port_url', 'kill_sandbox', 'list_files', 'list_sandboxes'],
      ...['pause_sandbox', 'read_file', 'resume_sandbox', 'run_code', 'run_command', 'write_file'],
    ])
    for (const { description, inputSchema } of one.tools) {
      assert.ok(description && inputSchema.type === 'object')
    }
  })

  it('create, use, fork, pause, resume and kill a sandbox', async () => {
    const [made] = await use(overStdio, 'create_sandbox', { metadata: { of: 'mcp' }, envs: { NAME: 'Bo' } })
    const sandboxID = idIn(made.replace(/ from .*/s, ''))
    const files = { sandboxID, path: 'work/note.txt' }
    assert.match((await use(overHttp, 'list_sandboxes'))[0], new RegExp(`${sandboxID} running.* of=mcp`))
    const said = await use(overHttp, 'write_file', { ...files, content: 'Grüße\n' })
    assert.deepEqual(said, ['Wrote 8 bytes to work/note.txt.', false])
    assert.deepEqual(await use(overStdio, 'read_file', files), ['Grüße\n', false])
    assert.deepEqual(await use(overStdio, 'list_files', { sandboxID, path: 'work' }), [
      ...['/home/user/work/note.txt (8 bytes)', false],
    ])
    const command = 'echo $NAME in $PWD; echo aside >&2; exit 3'
    assert.deepEqual(await use(overHttp, 'run_command', { sandboxID, command, cwd: 'work' }), [
      ...['exit status 3\nstdout:\nBo in /home/user/work\n\nstderr:\naside\n', true],
    ])
    const [forked] = await use(overHttp, 'fork_sandbox', { sandboxID })
    const fork = { ...files, sandboxID: idIn(forked) }
    assert.notEqual(fork.sandboxID, sandboxID)
    assert.equal((await use(overHttp, 'read_file', fork))[0], 'Grüße\n')
    assert.match((await use(overHttp, 'kill_sandbox', fork))[0], /has ended/)
    assert.match((await use(overStdio, 'pause_sandbox', { sandboxID }))[0], /is paused/)
    assert.match((await use(overStdio, 'list_sandboxes'))[0], new RegExp(`${sandboxID} paused`))
    assert.match((await use(overStdio, 'resume_sandbox', { sandboxID }))[0], /runs/)
    const serve = { sandboxID, command: 'python3 -m http.server 8000 --directory work', background: true }
    assert.match((await use(overHttp, 'run_command', serve))[0], /^Started with pid \d+\.$/)
    const [url] = await use(overHttp, 'get_port_url', { sandboxID, port: 8000 })
    assert.match(url, new RegExp(`^http://8000-${sandboxID}\\.localhost:\\d+$`))
    assert.match((await use(overHttp, 'kill_sandbox', { sandboxID }))[0], /has ended/)
  })

  it('limit the output of a sandbox, and end commands that do not stop', async () => {
    const sandboxID = idIn((await use(overHttp, 'create_sandbox'))[0].replace(/ from .*/s, ''))
    const run = (command: string, more: object = {}) =>
      use(overHttp, 'run_command', { sandboxID, command, ...more })
    const [long] = await run('seq 100000')
    assert.match(
      long,
      /^exit status 0\nstdout:\n1\n2\n[\s\S]*characters are left out[\s\S]*\n99999\n100000\n$/,
    )
    assert.ok(long.length < 31_000)
    assert.match((await run('yes', { timeoutSeconds: 60 }))[0], /ended because it wrote more than 32 MiB/)
    assert.match(
      (await run('sleep 1000', { timeoutSeconds: 1 }))[0],
      /^The command was ended because its timeout was over\./,
    )
    assert.match((await run('pgrep -x "yes|sleep" | wc -l'))[0], /stdout:\n0\n/)
    await run('head -c 300000 /dev/zero | tr "\\0" x > large; head -c 100 /dev/urandom > binary')
    const [first] = await use(overHttp, 'read_file', { sandboxID, path: 'large' })
    assert.match(first, /x\n\[Bytes 0 to 100000 of 300000: go on with offset 100000\.\]$/)
    const [last] = await use(overHttp, 'read_file', { sandboxID, path: 'large', offset: 200_000 })
    assert.equal(last, 'x'.repeat(100_000))
    assert.match((await use(overHttp, 'read_file', { sandboxID, path: 'binary' }))[0], /^base64: /)
    await use(overHttp, 'kill_sandbox', { sandboxID })
  })

  it('return failures with a reason, as an answer that the model can read', async () => {
    const cases: [name: string, given: object, says: RegExp][] = [
      ['run_command', { sandboxID: 'inone', command: 'true' }, /doesn't exist/],
      ['create_sandbox', { template: 'no-such' }, /template 'no-such' not found/],
      ['run_command', { sandboxID: 'inone' }, /must have required property 'command'/],
      ['get_port_url', { sandboxID: 'inone', port: 0 }, /must be >= 1/],
      ['no_such_tool', {}, /There is no tool 'no_such_tool'/],
    ]
    for (const [name, given, says] of cases) {
      const [text, isError] = await use(overHttp, name, given)
      assert.match(text, says)
      assert.equal(isError, true)
    }
    const sandboxID = idIn((await use(overHttp, 'create_sandbox'))[0].replace(/ from .*/s, ''))
    const [text, isError] = await use(overHttp, 'run_code', { sandboxID, code: '1' })
    assert.deepEqual([/has no code interpreter/.test(text), isError], [true, true])
    await use(overHttp, 'kill_sandbox', { sandboxID })
  })

  it('need a key', async () => {
    for (const key of ['e2b_00', 'nonsense', '']) {
      await assert.rejects(connected(httpTransport(key)), /401|Unauthorized/i)
    }
    assert.equal((await fetch(new URL('/mcp', warren.url))).status, 405)
  })
})
