import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { connectFrame } from '../lib/connect-frames.ts'
import { UsageError } from './arguments.ts'
import { completionCommand, singleEntryOf } from './completion.ts'
import { duration, painter } from './output.ts'
import { runCommand } from './run.ts'
import { sandboxVerbs } from './sandbox.ts'
import {
  answers,
  asked,
  connect,
  fakeSides,
  fakeTerminal,
  type sandbox,
  shells,
  until,
  url,
} from './team-server-fixture.ts'
import { runVerb } from './verbs.ts'
import { webhookVerbs } from './webhook.ts'

const run = (...args: string[]) => runVerb(sandboxVerbs, args, fakeSides().parts)
const onTerminal = (...args: string[]) => runVerb(sandboxVerbs, args, fakeSides('', { isTTY: true }).parts)

test('list shows every page as a table to people and as JSON to programs', async () => {
  const shown = String(await run('list'))
  assert.match(shown, /^SANDBOX +TEMPLATE +STATE .*\nione +base +running +2 +512 MiB .+\nitwo +base +paused /)
  assert.ok(!shown.includes('\x1b'), 'what metadata holds must not reach the terminal')
  assert.deepEqual(
    JSON.parse(String(await run('list', '--json'))).map((one: typeof sandbox) => one.sandboxID),
    ['ione', 'itwo'],
  )
  assert.equal(asked[0]?.key, 'key-1')
})

test('info, logs, pause, resume, fork and kill send the matching requests', async () => {
  assert.match(String(await run('info', 'ione')), /state +running\n[\s\S]*metadata who +me\n?/)
  assert.equal(await run('logs', 'ione'), '2026-01-02T03:04:05.000Z  info   hello')
  await run('pause', 'ione', '--no-memory')
  assert.deepEqual(asked.at(-1)?.body, { memory: false })
  await run('resume', 'itwo', '--timeout', '60')
  assert.deepEqual(asked.at(-1)?.body, { timeout: 60 })
  assert.equal(await run('fork', 'ione', '--count', '1'), 'inew')
  assert.match(String(await run('kill', 'ione', 'itwo')), /ione is killed\.\n.*itwo is killed\./)
  await run('kill', '--all')
  assert.deepEqual(
    asked.slice(-2).map(({ method, path }) => `${method} ${path}`),
    ['DELETE /sandboxes/ione', 'DELETE /sandboxes/itwo'],
  )
})

test('kill goes on after a failure, and with --all without sandboxes that have ended since', async () => {
  await assert.rejects(run('kill', 'ione', 'igone', 'itwo'), /not expected/)
  assert.equal(asked.at(-1)?.path, '/sandboxes/itwo')
  delete answers['DELETE /sandboxes/ione']
  try {
    await run('kill', '--all')
  } finally {
    answers['DELETE /sandboxes/ione'] = null
  }
  assert.equal(asked.at(-1)?.path, '/sandboxes/itwo')
})

test('logs --follow ends with its sandbox, whichever level it shows', async () => {
  const entry = { timestamp: '2026-01-02T03:04:06.000Z', level: 'info', fields: {} }
  const asks = '/v2/sandboxes/ione/logs?limit=1000&direction=forward&cursor=0'
  answers['GET /v2/sandboxes/ione/logs?limit=1000&level=error&direction=backward'] = { logs: [] }
  answers[`GET ${asks}`] = {
    logs: [
      { ...entry, message: 'quiet' },
      { ...entry, message: 'loud', level: 'error' },
      { ...entry, message: 'ended', fields: { event_type: 'sandbox_ended' } },
    ],
  }
  const printed: string[] = []
  const print = (line: string) => void printed.push(line)
  const args = ['logs', 'ione', '--follow', '--level', 'error']
  assert.equal(await runVerb(sandboxVerbs, args, { ...fakeSides().parts, print }), 'The sandbox has ended.')
  assert.deepEqual(printed, ['2026-01-02T03:04:06.000Z  error  loud'])
})

/** Follows a log that these reads bring, oldest first, and returns what is printed. */
async function followLog(read: (cursor: number | undefined) => object[]): Promise<string[]> {
  const { parts } = fakeSides()
  const readLogs = async (_sandboxID: string, { cursor }: { cursor?: number }) => {
    const found = read(cursor)
    return cursor === undefined ? found.toReversed() : found
  }
  const printed: string[] = []
  const print = (text: string) => void printed.push(text.slice(text.lastIndexOf('  ')).trim())
  const connectLog = (async () => ({
    readLogs,
    listSandboxes: async () => [],
    getSandbox: async () => ({ state: 'running' }),
  })) as unknown as typeof parts.connect
  const given = { ...parts, connect: connectLog, print }
  assert.equal(await runVerb(sandboxVerbs, ['logs', 'ione', '--follow'], given), 'The sandbox has ended.')
  return printed
}

const logTime = 1_767_323_045_000
const logEntry = (ms: number, message: string, event_type?: string) => ({
  timestamp: new Date(logTime + ms).toISOString(),
  level: 'info',
  message,
  fields: event_type === undefined ? {} : { event_type },
})

test('logs --follow prints every line once, also those of one millisecond and those that come late', async () => {
  const log = [
    logEntry(0, 'one'),
    logEntry(0, 'two'),
    logEntry(-1, 'late'),
    logEntry(9, 'ended', 'sandbox_ended'),
  ]
  const cursors: number[] = []
  let count = 0
  const printed = await followLog((cursor) => {
    if (cursor !== undefined) cursors.push(cursor - logTime)
    return log.slice(0, ++count)
  })
  assert.deepEqual(printed, ['one', 'two', 'late', 'ended'])
  assert.deepEqual(cursors, [-1000, -1000, -1000])
})

test('logs --follow goes on after more lines of one millisecond than one read brings', async () => {
  const many = (ms: number, count: number) =>
    Array.from({ length: count }, (_, index) => logEntry(ms, `${ms} ${index}`))
  const log = [...many(0, 1500), ...many(1, 999), logEntry(2, 'ended', 'sandbox_ended')]
  const printed = await followLog((cursor) =>
    cursor === undefined ? [] : log.filter(({ timestamp }) => Date.parse(timestamp) >= cursor).slice(0, 1000),
  )
  assert.deepEqual([printed.length, new Set(printed).size], [2000, 2000])
})

test('logs --follow ends at once if the sandbox has ended, and not if it was recovered after that', async () => {
  const ended = logEntry(0, 'ended', 'sandbox_ended')
  assert.deepEqual(await followLog(() => [ended]), ['ended'])
  const log = [ended, logEntry(1, 'back', 'sandbox_recovered'), logEntry(2, 'again', 'sandbox_ended')]
  let count = 1
  assert.deepEqual(await followLog(() => log.slice(0, ++count)), ['ended', 'back', 'again'])
})

test('cp prints no control sequences of the sandbox', async () => {
  answers['POST /filesystem.Filesystem/Stat'] = { entry: { path: '/\x1b[2Jx', type: 'FILE_TYPE_DIRECTORY' } }
  answers['POST /files?path=%2F%1B%5B2Jx%2Fempty'] = {}
  const folder = mkdtempSync(join(tmpdir(), 'warren-cp-'))
  try {
    writeFileSync(join(folder, 'empty'), '')
    const said = await run('cp', join(folder, 'empty'), 'ione:.')
    assert.equal(said, `${folder}/empty was copied to /x/empty.`)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('cp ends an archive that does not end, and ends tar in the sandbox', async () => {
  answers['POST /filesystem.Filesystem/Stat'] = { entry: { path: '/x', type: 'FILE_TYPE_DIRECTORY' } }
  const folder = mkdtempSync(join(tmpdir(), 'warren-cp-'))
  const before = shells.length
  try {
    const copied = run('cp', 'ione:/x', folder)
    await until('/process.Process/Start')
    const stdout = Buffer.alloc(2 ** 15).toString('base64')
    for (let count = 0; count < 64; count += 1)
      shells[before]!.write(connectFrame({ event: { data: { stdout } } }))
    await assert.rejects(copied, /The copy was stopped: the sandbox sent much that belongs to no file/)
    await until('/process.Process/SendSignal')
  } finally {
    for (const stream of shells.splice(before)) stream.destroy()
    rmSync(folder, { recursive: true })
  }
})

test('cp of a folder says that tar is missing on this machine', async (context) => {
  answers['POST /filesystem.Filesystem/Stat'] = { entry: { path: '/x', type: 'FILE_TYPE_DIRECTORY' } }
  const folder = mkdtempSync(join(tmpdir(), 'warren-cp-'))
  const { PATH } = process.env
  context.after(() => {
    process.env.PATH = PATH
  })
  process.env.PATH = '/nowhere'
  try {
    await assert.rejects(run('cp', folder, 'ione:/x'), /copied by `tar`, which cannot be run here: .*ENOENT/)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('a shell shows the output of the sandbox, sends keys in their order, and ends with its exit code', async () => {
  const { terminal, written, type, resize, isGivenBack } = fakeTerminal()
  const code = runVerb(sandboxVerbs, ['shell', 'ione', '--user', 'root', '--cwd', '/tmp'], {
    ...fakeSides('', { isTTY: true }).parts,
    terminal,
  })
  const [start] = await until('/process.Process/Start')
  assert.deepEqual(start?.body, {
    process: { cmd: '/bin/bash', args: ['-i', '-l'], envs: { TERM: 'xterm-256color' }, cwd: '/tmp' },
    pty: { size: { cols: 100, rows: 30 } },
  })
  const shell = shells.shift()!
  shell.write(connectFrame({ event: { data: { pty: Buffer.from('$ ').toString('base64') } } }))
  while (written.length === 0) await new Promise(setImmediate)
  type('l')
  type('s\r')
  const sent = await until('/process.Process/SendInput', 2)
  const keys = sent.map(({ body }) => (body as { input: { pty: string } }).input.pty)
  assert.equal(keys.map((one) => Buffer.from(one, 'base64').toString()).join(''), 'ls\r')
  resize()
  assert.deepEqual((await until('/process.Process/Update'))[0]?.body, {
    process: { pid: 7 },
    pty: { size: { cols: 100, rows: 30 } },
  })
  shell.end(connectFrame({ event: { end: { exitCode: 3, exited: true } } }))
  assert.equal(await code, 3)
  assert.ok(isGivenBack())
  assert.deepEqual(written, ['$ '])
})

test('a shell that breaks off is reported, and a paused sandbox gets no shell', async () => {
  const code = onTerminal('shell', 'ione')
  while (shells.length === 0) await new Promise(setImmediate)
  shells.shift()!.end()
  await assert.rejects(code, /broke off/)
  await assert.rejects(onTerminal('shell', 'itwo'), /is paused\. Run `warren sandbox resume itwo` first/)
})

test('port gives the URL of a port, or the headers that name it', async () => {
  const { parts, written } = fakeSides()
  assert.equal(await runVerb(sandboxVerbs, ['port', 'ione', '8000'], parts), url)
  assert.equal(written.said.length, 2)
  const json = JSON.parse(String(await runVerb(sandboxVerbs, ['port', 'ithree', '80', '--json'], parts)))
  assert.deepEqual(json, { url: 'http://80-ithree.x.test:1', headers: {} })
  asked.length = 0
  for (const wrong of ['0', '65536', 'http'])
    await assert.rejects(run('port', 'i12345678901234567890', wrong), UsageError)
  assert.deepEqual(asked, [])
})

test('a malformed command is rejected before anything is sent', async () => {
  const wrong = [
    [],
    ['nix'],
    ['info'],
    ['info', 'a', 'b'],
    ['kill'],
    ['kill', 'a', '--all'],
    ['fork', 'i12345678901234567890', '--count', '0'],
    ['shell', 'a', '--json'],
    ['list', '--follow'],
    ['exec', 'a'],
    ['cp', 'a', 'b'],
    ['cp', 'a:/x', 'b:/y'],
  ]
  for (const args of wrong) await assert.rejects(run(...args), UsageError, args.join(' '))
  assert.deepEqual(asked, [])
  assert.match(String(await run('--help')), /\n {2}shell +Opens a terminal/)
  assert.match(String(await run('shell', '--help')), /^Usage:\n {2}warren sandbox shell SANDBOX /)
})

test('webhooks are listed and made, all events unless some are named', async () => {
  assert.match(
    await runVerb(webhookVerbs, ['list'], connect),
    /w1 +mine +https:\/\/x\.test\/ +created +works/,
  )
  const args = ['create', 'mine', 'https://x.test/', '--secret', 's']
  await runVerb(webhookVerbs, [...args, '--event', 'killed'], connect)
  const one = asked.at(-1)?.body as { events: string[] }
  assert.deepEqual(one.events, ['sandbox.lifecycle.killed'])
  await runVerb(webhookVerbs, args, connect)
  assert.equal((asked.at(-1)!.body as { events: string[] }).events.length, 6)
  await assert.rejects(runVerb(webhookVerbs, [...args, '--event', 'born'], connect), UsageError)
  await assert.rejects(runVerb(webhookVerbs, ['create', 'mine', 'https://x.test/'], connect), /--secret/)
})

test('shells complete exactly the existing commands', async () => {
  const entries = [
    {
      name: 'sandbox',
      use: 'sandbox VERB',
      does: "a team's sandboxes",
      verbs: { list: ['state'], kill: ['all'] },
    },
    { name: 'env', use: 'env', does: 'variables' },
    singleEntryOf(runCommand),
  ]
  for (const shell of ['bash', 'zsh', 'fish']) {
    const script = await completionCommand([shell], entries)
    assert.match(script, /list kill/)
    assert.match(script, /env/)
    assert.match(script, shell === 'fish' ? /from run' -l keep$/m : /'run -'\*\).*--keep/)
    assert.match(script, shell === 'fish' ? /from kill' -l all$/m : /sandbox kill.*--all/)
  }
  await assert.rejects(completionCommand(['csh'], entries), UsageError)
})

test('bash completes options of run, and none of the command after --', async () => {
  const script = await completionCommand(['bash'], [singleEntryOf(runCommand)])
  const completed = (...words: string[]) => {
    const line = `COMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _warren; echo "\${COMPREPLY[*]}"`
    return execFileSync('bash', ['-c', `${script}\n${line}`], { encoding: 'utf8' }).trimEnd()
  }
  assert.equal(completed('warren', 'run', '--ke'), '--keep')
  assert.equal(completed('warren', 'run', '--keep', '--', 'ls', '--'), '')
})

test('colours are for terminals only, and times have one unit', () => {
  assert.equal(painter(false)('x', 'red'), 'x')
  assert.equal(painter(true)('x', 'red'), '\x1b[31mx\x1b[0m')
  assert.deepEqual([45_000, 300_000, 10_000_000, 300_000_000].map(duration), [
    '45 s',
    '5 min',
    '3 h',
    '3 days',
  ])
})
