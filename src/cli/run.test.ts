import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectFrame } from '../lib/connect-frames.ts'
import { UsageError } from './arguments.ts'
import { CommandFailure } from './command-failure.ts'
import { runCommand } from './run.ts'
import { asked, failures, fakeSides, shells, until } from './team-server-fixture.ts'
import { runSingle } from './verbs.ts'

const last = () => `${asked.at(-1)?.method} ${asked.at(-1)?.path}`
const output = (name: string, text: string) =>
  connectFrame({ event: { data: { [name]: Buffer.from(text).toString('base64') } } })
/** The frame that ends a stream with an error. */
function failing(message: string): Buffer {
  const frame = connectFrame({ error: { message } })
  frame[0] = 2
  return frame
}
async function nextShell() {
  while (shells.length === 0) await new Promise(setImmediate)
  return shells.shift()!
}

test('run creates a sandbox, passes input and output, kills it, and ends with the exit code', async () => {
  const { parts, written } = fakeSides('some input')
  const options = ['--template', 't', '--gpus', '2', '-e', 'A=b=c', '--volume', 'data:/d', '--no-internet']
  const code = runSingle(runCommand, [...options, '--', 'make', '--help'], parts)
  await until('/process.Process/CloseStdin')
  const [created, start, input] = asked
  assert.deepEqual(created?.body, {
    templateID: 't',
    timeout: 300,
    envVars: { A: 'b=c' },
    metadata: { 'warren.gpus': '2' },
    volumeMounts: [{ name: 'data', path: '/d' }],
    allow_internet_access: false,
  })
  const process = { cmd: 'make', args: ['--help'], envs: { A: 'b=c' } }
  assert.deepEqual(start?.body, { process, stdin: true })
  const stdin = Buffer.from('some input').toString('base64')
  assert.deepEqual(input?.body, { process: { pid: 7 }, input: { stdin } })
  const stream = await nextShell()
  stream.write(output('stdout', 'out'))
  stream.write(output('stderr', 'err'))
  stream.end(connectFrame({ event: { end: { exitCode: -1, exited: false, status: 'signal: killed' } } }))
  assert.equal(await code, 137)
  assert.deepEqual(written, { output: 'out', errors: 'err', said: [] })
  assert.equal(last(), 'DELETE /sandboxes/ione')
})

test('a run that is stopped ends its command and kills its sandbox, also while that starts', async () => {
  const stopped = fakeSides()
  const code = runSingle(runCommand, ['--', 'sleep', '9'], stopped.parts)
  await until('/process.Process/CloseStdin')
  stopped.stop()
  assert.equal(await code, 130)
  const [signal] = await until('/process.Process/SendSignal')
  assert.deepEqual(signal?.body, { process: { pid: 7 }, signal: 'SIGNAL_SIGTERM' })
  assert.equal(last(), 'DELETE /sandboxes/ione')
  shells.shift()
  const early = fakeSides()
  early.stop()
  assert.equal(await runSingle(runCommand, ['--', 'sleep', '9'], early.parts), 130)
  assert.equal(last(), 'DELETE /sandboxes/ione')
  assert.equal(shells.length, 0)
})

test('a command may run longer than the first time of its sandbox, unless a timeout was given', async () => {
  const long = fakeSides()
  const code = runSingle(runCommand, ['--', 'make'], long.parts)
  await until('/process.Process/CloseStdin')
  const extended = () => asked.filter(({ path }) => path === '/sandboxes/ione/timeout')
  while (extended().length < 3) {
    long.clock.advance(60_000)
    await new Promise(setImmediate)
  }
  assert.deepEqual(extended()[2]?.body, { timeout: 300 })
  const stream = await nextShell()
  stream.end(connectFrame({ event: { end: { exitCode: 0, exited: true } } }))
  assert.equal(await code, 0)
  asked.length = 0
  const limited = fakeSides()
  const short = runSingle(runCommand, ['--timeout', '90', '--', 'make'], limited.parts)
  await until('/process.Process/CloseStdin')
  assert.deepEqual((asked[0]!.body as { timeout: number }).timeout, 90)
  limited.clock.advance(60_000)
  const other = await nextShell()
  other.end(connectFrame({ event: { end: { exitCode: 0, exited: true } } }))
  assert.equal(await short, 0)
  assert.ok(!asked.some(({ path }) => path?.endsWith('/timeout')))
})

test('a sandbox that fails is no exit code of the command, and --keep leaves it', async () => {
  const { parts, written } = fakeSides()
  const code = runSingle(runCommand, ['--keep', '--', 'make'], parts)
  await until('/process.Process/CloseStdin')
  const stream = await nextShell()
  stream.end(failing('the disk is full\x1b[2J'))
  await assert.rejects(code, (error) => {
    assert.ok(error instanceof CommandFailure)
    assert.equal(error.message, 'the disk is full')
    return error.exitCode === 125
  })
  assert.match(written.said[0]!, /^The sandbox ione goes on for 5 min\./)
  assert.ok(!asked.some(({ method }) => method === 'DELETE'))
})

test('run says what is wrong before anything is sent, and leaves the options of its command alone', async () => {
  const runs = (...args: string[]) => runSingle(runCommand, args, fakeSides().parts)
  const wrong = [[], ['--gpus', 'all', '--', 'x'], ['-e', 'A', '--', 'x'], ['--volume', 'x', '--', 'y']]
  for (const args of wrong) await assert.rejects(runs(...args), UsageError, args.join(' '))
  await assert.rejects(
    runs('--templte', 'x', 'y'),
    /'--templte'\. Did you mean `--template`\? Run `warren run --help`/,
  )
  await assert.rejects(runs('--timeout', '-3', 'ls'), /--timeout is '-3', but must be a whole number above 0/)
  await assert.rejects(runs('--timeout'), /--timeout needs a value\./)
  await assert.rejects(runs('--name', 'a b', 'ls'), UsageError)
  assert.deepEqual(asked, [])
  assert.match(String(await runs('--help')), /warren run .*COMMAND…/)
})

test('a run fails if its input cannot be sent, unless its command has closed it', async () => {
  const inputPath = '/process.Process/SendInput'
  const runWith = async (status: number, message: string) => {
    failures.set(inputPath, { status, message })
    asked.length = 0
    const code = runSingle(runCommand, ['--', 'cat'], fakeSides('some input').parts)
    await until(inputPath)
    return { code, stream: await nextShell() }
  }
  try {
    const lost = await runWith(503, 'the node is away')
    await assert.rejects(
      lost.code,
      (error) => error instanceof CommandFailure && /node is away/.test(error.message),
    )
    const closed = await runWith(500, 'error writing to stdin: write EPIPE')
    closed.stream.end(connectFrame({ event: { end: { exitCode: 4 } } }))
    assert.equal(await closed.code, 4)
  } finally {
    failures.clear()
  }
})
