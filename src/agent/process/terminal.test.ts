import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { suite, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  begin,
  collect,
  decode,
  envelope,
  type Frame,
  frames,
  type Json,
  livingMembers,
  shell,
  start,
  token,
  useAgent,
} from '../agent-suite.ts'
import { hangUp, sessionOf } from './session.ts'

const agent = useAgent()
const pty = { size: { cols: 100, rows: 30 } }

function outputOf({ message }: Frame): string {
  return decode(((message.event as Json | undefined)?.data as Json | undefined)?.pty)
}

/** Reads on until the terminal has shown `text`. */
async function until(stream: AsyncGenerator<Frame>, text: string): Promise<string> {
  let seen = ''
  while (!seen.includes(text)) {
    const { value, done } = await stream.next()
    assert.ok(!done, `the terminal ended without '${text}': ${seen}`)
    seen += outputOf(value)
  }
  return seen
}

async function allOf(stream: AsyncGenerator<Frame>) {
  const seen = await collect(stream)
  const end = seen.map(({ message }) => (message.event as Json | undefined)?.end as Json).find(Boolean)
  return { text: seen.map(outputOf).join(''), end, error: seen.at(-1)?.message.error as Json | undefined }
}

const as = (user: string) => ({ authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` })
const type = (pid: number, text: string) =>
  agent.unary('process.Process/SendInput', {
    process: { pid },
    input: { pty: Buffer.from(text).toString('base64') },
  })

suite('a terminal', () => {
  test('shows its output as pty, and is the controlling terminal of its own session', async () => {
    const { pid, stream } = await begin(agent, shell('tty; echo hello > /dev/tty; ps -o sid= -p $$', { pty }))
    const { text, end } = await allOf(stream)
    assert.match(text, /^\/dev\/pts\/\d+\r\nhello\r\n/)
    assert.match(text, new RegExp(`\\b${pid}\\r\\n$`))
    assert.deepEqual(end, { exited: true, status: 'exit status 0' })
  })

  test('has the pid of the program itself', async () => {
    const config = { cmd: '/bin/sh', args: ['-c', 'echo $$'], cwd: '/' }
    const { pid, stream } = await begin(agent, { process: config, pty }, as('nobody'))
    assert.equal((await allOf(stream)).text, `${pid}\r\n`)
  })

  test('has the requested size, and a new size after a resize', async () => {
    const { pid, stream } = await begin(agent, shell('stty size; read x; stty size', { pty }))
    await until(stream, '30 100\r\n')
    const update = { process: { pid }, pty: { size: { cols: 132, rows: 50 } } }
    assert.equal((await agent.unary('process.Process/Update', update)).status, 200)
    await type(pid, '\r')
    assert.match((await allOf(stream)).text, /50 132\r\n$/)
  })

  test('without a size it has 80 columns and 24 rows', async () => {
    const { stream } = await begin(agent, shell('stty size', { pty: {} }))
    assert.equal((await allOf(stream)).text, '24 80\r\n')
  })

  test('signals a resize to the program', async () => {
    const script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"
    const { pid, stream } = await begin(agent, shell(script, { pty }))
    await until(stream, 'ready')
    await agent.unary('process.Process/Update', { process: { pid }, pty: { size: { cols: 90, rows: 20 } } })
    assert.match((await allOf(stream)).text, /20 90/)
  })

  test('takes what is typed, and Ctrl-C and Ctrl-D work', async () => {
    const { pid, stream } = await begin(agent, { process: { cmd: '/bin/sh', args: ['-i'] }, pty })
    await type(pid, 'echo $((6*7))\r')
    await until(stream, '42\r\n')
    // Told by the command itself: only then does the terminal belong to it, and Ctrl-C reach it.
    await type(pid, "sh -c 'echo be$((0))gun; exec sleep 600'\r")
    await until(stream, 'be0gun\r\n')
    await type(pid, '\x03')
    await until(stream, '^C')
    await type(pid, 'exit 5\r')
    assert.equal((await allOf(stream)).end?.exitCode, 5)
    const reader = await begin(agent, { process: { cmd: 'cat' }, pty })
    await type(reader.pid, '\x04')
    assert.equal((await allOf(reader.stream)).end?.status, 'exit status 0')
  })

  test('does not hang up on a process that closed its streams and keeps running', async () => {
    const { stream } = await begin(agent, shell('exec <&- >&- 2>&-; sleep 0.2; exit 4', { pty }))
    assert.equal((await allOf(stream)).end?.status, 'exit status 4')
  })

  test('belongs to the user, with all its groups, environment and directory', async () => {
    const script = 'id -un; id -Gn; echo $HOME $OWN; pwd; echo again > /dev/stdout; echo $LD_MADE_UP'
    const config = { cmd: 'sh', args: ['-c', script], cwd: '/usr', envs: { OWN: 'x', LD_MADE_UP: 'set' } }
    const { stream } = await begin(agent, { process: config, pty }, as('nobody'))
    assert.equal(
      (await allOf(stream)).text,
      ['nobody', 'nogroup', '/nonexistent x', '/usr', 'again', 'set', ''].join('\r\n'),
    )
  })

  test('inherits nothing, and nobody inherits it', async () => {
    const { pid, stream } = await begin(agent, shell('echo up; read x', { pty }))
    await until(stream, 'up')
    const open = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
    assert.ok(open.every((path) => !path.includes('ptmx')))
    const other = await agent.run('ls -l /proc/$$/fd')
    assert.doesNotMatch(other.stdout, /ptmx|pts/)
    await type(pid, '\r')
  })

  test('ends with its signal, its children too, and leaves nothing to be reaped', async () => {
    const { pid, stream } = await begin(agent, shell('sleep 600; true', { pty }))
    await agent.unary('process.Process/SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' })
    assert.equal((await allOf(stream)).end?.status, 'signal: killed')
    while (livingMembers(pid).length > 0) await nextTurn()
    assert.ok(!readdirSync('/proc').includes(String(pid)))
  })

  test('sends a hangup to its whole session when it is gone, to stopped processes too, and to no other process', async () => {
    const other = spawn('sleep', ['60'], { detached: true })
    const leader = spawn('sh', ['-c', 'sleep 60 & kill -STOP $!; echo ready; wait'], { detached: true })
    await once(leader.stdout, 'data')
    assert.equal(sessionOf(leader.pid!), leader.pid)
    hangUp(leader.pid!)
    assert.deepEqual(await once(leader, 'close'), [null, 'SIGHUP'])
    assert.equal(sessionOf(other.pid!), other.pid)
    other.kill()
  })

  test('is killed at the deadline', async () => {
    const { pid, stream } = await begin(agent, shell('sleep 600', { pty }), { 'connect-timeout-ms': '150' })
    assert.equal((await allOf(stream)).error?.code, 'deadline_exceeded')
    while (livingMembers(pid).length > 0) await nextTurn()
  })

  test('lives on without its client, and can be joined again', async () => {
    const headers = { 'content-type': 'application/connect+json', 'x-access-token': token }
    const response = await agent.open('POST', `/${start}`, headers, envelope(shell('cat', { pty })))
    const first = (await frames(response).next()).value as Frame
    const pid = ((first.message.event as Json).start as Json).pid as number
    response.destroy()
    const joined = agent.stream('process.Process/Connect', { process: { pid } })
    await joined.next()
    await type(pid, 'back\r')
    await until(joined, 'back\r\nback\r\n')
    await type(pid, '\x04')
    assert.equal((await allOf(joined)).end?.status, 'exit status 0')
  })

  test('delivers long output whole, in chunks of at most 16 KiB', async () => {
    let length = 0
    for await (const frame of agent.stream(start, shell('stty -opost; head -c 500000 /dev/zero', { pty }))) {
      const chunk = outputOf(frame)
      assert.ok(chunk.length <= 16 * 1024)
      length += chunk.length
    }
    assert.equal(length, 500_000)
  })

  test('StreamInput types frame by frame', async () => {
    const { pid, stream } = await begin(
      agent,
      shell('stty -echo; echo ready; read a; read b; echo $a-$b', { pty }),
    )
    await until(stream, 'ready')
    const frame = (text: string) =>
      envelope({ data: { input: { pty: Buffer.from(text).toString('base64') } } })
    const body = Buffer.concat([envelope({ start: { process: { pid } } }), frame('one\r'), frame('two\r')])
    const headers = { 'content-type': 'application/connect+json', 'x-access-token': token }
    const answer = await agent.open('POST', '/process.Process/StreamInput', headers, body)
    assert.deepEqual(await collect(frames(answer)), [
      { flags: 0, message: {} },
      { flags: 2, message: {} },
    ])
    assert.match((await allOf(stream)).text, /one-two/)
  })

  test('delays only its own input, until the deadline of the call, if nobody reads it', async () => {
    const { pid, stream } = await begin(agent, shell('stty raw -echo; echo ready; sleep 600', { pty }))
    // Before that the terminal would take any amount and drop what is too much for a line.
    await until(stream, 'ready')
    const input = { process: { pid }, input: { pty: Buffer.alloc(400_000, 'x').toString('base64') } }
    const rejected = await agent.unary('process.Process/SendInput', input, { 'connect-timeout-ms': '300' })
    assert.equal(rejected.json.code, 'deadline_exceeded')
    assert.equal((await agent.run('echo alive')).stdout, 'alive\n')
  })
})

suite('a terminal is not stdin', () => {
  test('a terminal rejects stdin and the close of stdin', async () => {
    const { pid } = await begin(agent, shell('sleep 600', { pty }))
    const sent = await agent.unary('process.Process/SendInput', {
      process: { pid },
      input: { stdin: 'eA==' },
    })
    assert.equal(sent.json.code, 'internal')
    const closed = await agent.unary('process.Process/CloseStdin', { process: { pid } })
    assert.equal(closed.status, 500)
    assert.equal(closed.json.code, 'unknown')
    assert.match(closed.json.message as string, /^error closing stdin: cannot close stdin for PTY process/)
  })

  test('a process without a terminal takes no terminal input and no size', async () => {
    const { pid } = await begin(agent, shell('sleep 600', { stdin: true }))
    const sent = await agent.unary('process.Process/SendInput', { process: { pid }, input: { pty: 'eA==' } })
    assert.equal(sent.json.code, 'internal')
    assert.equal(
      (await agent.unary('process.Process/Update', { process: { pid }, pty })).json.code,
      'internal',
    )
  })

  test('a missing program is rejected before a terminal is made', async () => {
    const [frame] = await collect(agent.stream(start, { process: { cmd: '/no/such' }, pty }))
    assert.equal((frame!.message.error as Json).code, 'invalid_argument')
  })
})
