import { header } from '../contract/constants.ts'
import type { SandboxLogEntry } from '../contract/rest/logs.ts'
import type { ListedSandbox, SandboxDetail } from '../contract/rest/sandbox.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { delay, systemClock } from '../lib/clock.ts'
import { namedValues, oneOf, positiveNumber, UsageError } from './arguments.ts'
import { copyCommand, defaultMaxMB } from './copy.ts'
import {
  createSandbox,
  defaultTimeoutSeconds,
  newSandboxOf,
  sandboxOptions,
  sandboxOptionTexts,
} from './new-sandbox.ts'
import { asJson, duration, listing, painter, plainLines, table } from './output.ts'
import { RemoteProcesses } from './remote-process.ts'
import {
  agentOf,
  execCommand,
  findRunning,
  loginShell,
  processOptions,
  processOptionTexts,
  type RunParts,
  requireTerminal,
  rethrow,
} from './run.ts'
import { isSandboxID, sandboxIDOf } from './sandbox-name.ts'
import { sshProxyVerb, sshVerb } from './ssh.ts'
import { whichServer } from './team-client.ts'
import type { Given, VerbTable } from './verbs.ts'

const command = 'warren sandbox'
const followEveryMs = 1000
const maxLogEntries = 1000
/** How much later than its time an entry may be written. */
const maxLateMs = 1000
const levels = ['debug', 'info', 'warn', 'error']

type SandboxCommandParts = RunParts & { print: (line: string) => void }

const words = ['SANDBOX']

export const sandboxVerbs: VerbTable<SandboxCommandParts, string | number> = {
  name: 'sandbox',
  does: 'sandboxes of a team',
  notes: `SANDBOX is a sandbox's id, or the name that --name gave it. ${whichServer}`,
  verbs: {
    create: {
      does: 'Creates a sandbox and prints its id.',
      ...sandboxOptions,
      options: sandboxOptionTexts,
      run: create,
    },
    exec: {
      does: 'Runs a command in a sandbox, and ends with its exit code.',
      about: `The exit codes 125, 126 and 127 mean what \`warren run --help\` says. Options stand
before the command:

  warren sandbox exec SANDBOX ls -la
  warren sandbox exec -it SANDBOX bash`,
      words,
      texts: processOptions.texts,
      lists: { env: 'NAME=VALUE' },
      flags: processOptions.flags,
      shorts: { ...processOptions.shorts, env: 'e' },
      options: { ...processOptionTexts, env: 'a variable of the command' },
      json: false,
      takesCommand: true,
      run: execCommand,
    },
    cp: {
      does: 'Copies a file or a folder into a sandbox, or out of one, as `docker cp` does.',
      about: `One of SOURCE and TARGET is SANDBOX:PATH. A target that is a folder gets the
source in it, and SOURCE/. copies what a folder holds.`,
      words: ['SOURCE', 'TARGET'],
      texts: { user: 'NAME', 'max-mb': 'MB' },
      options: {
        user: "whose files they are in the sandbox (default: the template's user)",
        'max-mb': `MiB that a copy from a sandbox may bring (default: ${defaultMaxMB})`,
      },
      json: false,
      run: copyCommand,
    },
    port: {
      does: 'Prints the URL at which a port of the sandbox is reached.',
      words: [...words, 'PORT'],
      run: onNamed(port),
    },
    list: {
      does: 'Shows the sandboxes that run or are paused.',
      texts: { state: 'STATE', template: 'NAME', metadata: 'KEY=VALUE' },
      options: {
        state: 'running or paused (default: both)',
        template: 'only sandboxes of this template',
        metadata: 'only sandboxes with this metadata',
      },
      run: list,
    },
    info: { does: 'Shows what a sandbox is and has.', words, run: onNamed(info) },
    logs: {
      does: 'Shows what happened in a sandbox, the last 1000 entries.',
      words,
      texts: { level: 'LEVEL' },
      flags: ['follow'],
      shorts: { follow: 'f' },
      options: {
        level: 'debug, info, warn or error and up (default: all)',
        follow: 'goes on with new entries until the sandbox ends',
      },
      run: onNamed(logs),
    },
    shell: {
      does: 'Opens a terminal in a sandbox, and ends with the exit code of its shell.',
      words,
      texts: { user: 'NAME', cwd: 'PATH' },
      shorts: { user: 'u', cwd: 'w' },
      options: { user: processOptionTexts.user, cwd: processOptionTexts.cwd },
      json: false,
      run: onNamed(shell),
    },
    ssh: sshVerb,
    'ssh-proxy': sshProxyVerb,
    pause: {
      does: 'Stops a sandbox and keeps its memory and files until it is resumed.',
      words,
      flags: ['no-memory'],
      options: { 'no-memory': 'keeps the files alone: the sandbox boots when it is resumed' },
      run: onNamed(pause),
    },
    resume: {
      does: 'Lets a paused sandbox go on.',
      words,
      texts: { timeout: 'SECONDS' },
      options: {
        timeout: `the sandbox ends after this time (default: what it had left, or ${defaultTimeoutSeconds} if that was nothing)`,
      },
      run: onNamed(resume),
    },
    fork: {
      does: 'Starts new sandboxes from the present state of a running one.',
      words,
      texts: { count: 'N', timeout: 'SECONDS' },
      options: {
        count: 'how many (default: 1)',
        timeout: 'the forks end after this time (default: after what the original has left)',
      },
      run: onNamed(fork),
    },
    kill: {
      does: 'Ends sandboxes, with all that is in them.',
      words: ['SANDBOX…'],
      flags: ['all'],
      options: { all: 'every sandbox of the team' },
      run: kill,
    },
  },
}

/** Lets the first word be a sandbox's name. */
function onNamed<Result>(
  run: (given: Given, parts: SandboxCommandParts) => Promise<Result>,
): (given: Given, parts: SandboxCommandParts) => Promise<Result> {
  return async (given, parts) => {
    const [word, ...rest] = given.words
    if (isSandboxID(word!)) return run(given, parts)
    const connected = parts.connect()
    const sandboxID = await sandboxIDOf(await connected, word!)
    return run({ ...given, words: [sandboxID, ...rest] }, { ...parts, connect: () => connected })
  }
}

async function create(given: Given, { connect, say }: SandboxCommandParts): Promise<string> {
  const wanted = newSandboxOf(given, command)
  const created = await createSandbox(await connect(), wanted, say)
  return given.json ? asJson(created) : created.sandboxID
}

/** Without a domain a sandbox has no host name of its own for other machines, and headers name it. */
async function port(
  { words: [sandboxID, text], json }: Given,
  { connect, say }: SandboxCommandParts,
): Promise<string> {
  const number = Number(text)
  if (!/^[1-9]\d{0,4}$/.test(text!) || number > 65_535)
    throw new UsageError(`PORT is '${text}', but must be a number from 1 to 65535.`, command)
  const client = await connect()
  const { domain, network } = await findRunning(client, sandboxID!)
  const isPublic = network?.allowPublicTraffic !== false
  const token = isPublic ? undefined : (await client.resume(sandboxID!, 1)).trafficAccessToken
  const headers = {
    ...(!domain && { [header.sandboxID]: sandboxID!, [header.sandboxPort]: text! }),
    ...(token && { [header.trafficToken]: token }),
  }
  const url = domain ? `${client.protocol}//${number}-${sandboxID}.${domain}` : client.url
  if (json) return asJson({ url, headers })
  for (const [name, value] of Object.entries(headers))
    say(`Send this header with each request: ${name}: ${value}`)
  return url
}

async function list({ values, json }: Given, { connect, terminal }: SandboxCommandParts): Promise<string> {
  const { state, template, metadata } = values
  if (metadata !== undefined) namedValues('metadata', [metadata], command)
  const query = {
    ...(state !== undefined && { state: oneOf('state', state, ['running', 'paused'], command) }),
    ...(template !== undefined && { template }),
    ...(metadata !== undefined && { metadata }),
  }
  const found = await (await connect()).listSandboxes(query)
  if (json) return asJson(found)
  if (found.length === 0) return 'There are no sandboxes.'
  const paint = painter(terminal.isTerminal)
  const shown = table(
    ['SANDBOX', 'TEMPLATE', 'STATE', 'CPU', 'MEMORY', 'AGE', 'TIME LEFT', 'METADATA'],
    found.map(rowOf),
  )
  return shown.replace(/ (running|paused) /g, (whole, word) =>
    whole.replace(word, paint(word, word === 'running' ? 'green' : 'yellow')),
  )
}

function rowOf(sandbox: ListedSandbox): string[] {
  const { sandboxID, alias, templateID, state, cpuCount, memoryMB, startedAt, endAt, metadata } = sandbox
  const now = systemClock.now()
  return [
    ...[sandboxID, alias ?? templateID, state, String(cpuCount), `${memoryMB} MiB`],
    duration(now - Date.parse(startedAt)),
    state === 'paused' ? '-' : duration(Date.parse(endAt) - now),
    Object.entries(metadata ?? {})
      .map(([key, value]) => `${key}=${value}`)
      .join(' '),
  ]
}

async function info({ words: [sandboxID], json }: Given, { connect }: SandboxCommandParts): Promise<string> {
  const found = await (await connect()).getSandbox(sandboxID!)
  return json ? asJson(found) : listing(propertiesOf(found))
}

function propertiesOf(sandbox: SandboxDetail): Record<string, string> {
  const { metadata = {}, network, lifecycle, volumeMounts = [] } = sandbox
  return {
    sandbox: sandbox.sandboxID,
    template: sandbox.alias ? `${sandbox.alias} (${sandbox.templateID})` : sandbox.templateID,
    state: sandbox.state,
    started: sandbox.startedAt,
    ends: sandbox.state === 'paused' ? 'when it is killed' : sandbox.endAt,
    'at its end': lifecycle?.onTimeout === 'pause' ? 'it is paused' : 'it is killed',
    size: `${sandbox.cpuCount} CPUs, ${sandbox.memoryMB} MiB of memory, ${sandbox.diskSizeMB} MiB of disk${gpusOf(sandbox)}`,
    internet: sandbox.allowInternetAccess === false ? 'no' : 'yes',
    ...(network && { network: JSON.stringify(network) }),
    ...(volumeMounts.length > 0 && {
      volumes: volumeMounts.map(({ name, path }) => `${name} at ${path}`).join(', '),
    }),
    ...Object.fromEntries(Object.entries(metadata).map(([key, value]) => [`metadata ${key}`, value])),
  }
}

async function logs(
  { words: [sandboxID], values, flags, json }: Given,
  parts: SandboxCommandParts,
): Promise<string> {
  const level = values.level === undefined ? {} : { level: oneOf('level', values.level, levels, command) }
  const asked = { limit: maxLogEntries, ...level }
  const client = await parts.connect()
  const entries = (await client.readLogs(sandboxID!, { ...asked, direction: 'backward' })).reverse()
  // Every sandbox has a log: this one never was.
  if (entries.length === 0 && values.level === undefined) await client.getSandbox(sandboxID!)
  const lines = (some: SandboxLogEntry[]) =>
    some.map((entry) => (json ? JSON.stringify(entry) : lineOf(entry)))
  if (!flags.has('follow')) return lines(entries).join('\n')
  for (const line of lines(entries)) parts.print(line)
  // The entry that says that the sandbox has ended is below most levels, so this asks for all of them.
  const shownLevels = levels.slice(Math.max(0, levels.indexOf(values.level ?? 'debug')))
  const shownOf = (some: SandboxLogEntry[]) => some.filter(({ level }) => shownLevels.includes(level))
  let read = entries
  let cursor = cursorAfter(read, 0)
  while (!hasEnded(read)) {
    const printed = shownOf(read).filter((entry) => timeOf(entry) >= cursor).length
    await delay(followEveryMs)
    read = await client.readLogs(sandboxID!, { limit: maxLogEntries, direction: 'forward', cursor })
    for (const line of lines(shownOf(read).slice(printed))) parts.print(line)
    cursor = cursorAfter(read, cursor)
  }
  return 'The sandbox has ended.'
}

const timeOf = ({ timestamp }: SandboxLogEntry): number => Date.parse(timestamp)

/**
 * Where the next read begins. It brings some entries again, because others of the same time may come late; but
 * never so many that it brings nothing else.
 */
function cursorAfter(read: readonly SandboxLogEntry[], before: number): number {
  const last = read.at(-1)
  if (!last) return before
  const at = timeOf(last)
  const countFrom = (from: number) => read.filter((entry) => timeOf(entry) >= from).length
  const next = [at - maxLateMs, at].find((from) => countFrom(from) < maxLogEntries) ?? at + 1
  return Math.max(before, next)
}

/** A sandbox that has ended may be recovered later. */
function hasEnded(entries: readonly SandboxLogEntry[]): boolean {
  const last = entries.findLast(({ fields }) => fields.event_type !== undefined)
  return last?.fields.event_type === 'sandbox_ended'
}

function lineOf({ timestamp, level, message }: SandboxLogEntry): string {
  return `${timestamp}  ${level.padEnd(5)}  ${plainLines(message)}`
}

async function shell(
  { words: [sandboxID], values }: Given,
  { connect, terminal, input }: SandboxCommandParts,
): Promise<number> {
  requireTerminal({ input }, '', command)
  const client = await connect()
  const agent = await agentOf(client, sandboxID!, values.user)
  return new RemoteProcesses(client, agent).runInTerminal(loginShell(values.cwd), terminal).catch(rethrow)
}

async function pause(
  { words: [sandboxID], flags, json }: Given,
  { connect }: SandboxCommandParts,
): Promise<string> {
  await (await connect()).pause(sandboxID!, !flags.has('no-memory'))
  return json ? asJson({ sandboxID, state: 'paused' }) : `The sandbox ${sandboxID} is paused.`
}

async function resume(
  { words: [sandboxID], values, json }: Given,
  { connect }: SandboxCommandParts,
): Promise<string> {
  const wanted = timeoutOf(values)
  const client = await connect()
  const timeout = wanted ?? secondsLeft(await client.getSandbox(sandboxID!))
  await client.resume(sandboxID!, timeout)
  const time = duration(timeout * 1000)
  return json ? asJson({ sandboxID, state: 'running' }) : `The sandbox ${sandboxID} runs for ${time}.`
}

const timeoutOf = ({ timeout }: Given['values']): number | undefined =>
  timeout === undefined ? undefined : positiveNumber('timeout', timeout, command)

/** What a running sandbox has left of its timeout, or a paused one had; the usual timeout where that was over. */
function secondsLeft({ state, endAt, timeLeft }: SandboxDetail): number {
  const left = state === 'paused' ? timeLeft : Math.ceil((Date.parse(endAt) - systemClock.now()) / 1000)
  return left === undefined || left < 1 ? defaultTimeoutSeconds : left
}

async function fork(
  { words: [sandboxID], values, json }: Given,
  { connect }: SandboxCommandParts,
): Promise<string> {
  const count = positiveNumber('count', values.count ?? '1', command)
  const wanted = timeoutOf(values)
  const client = await connect()
  const timeout = wanted ?? secondsLeft(await client.getSandbox(sandboxID!))
  const results = await client.fork(sandboxID!, { count, timeout })
  if (json) return asJson(results)
  const failed = results.find(({ error }) => error !== undefined)
  const made = results.flatMap(({ sandbox }) => sandbox?.sandboxID ?? [])
  if (!failed) return made.join('\n')
  const madeText = made.length > 0 ? ` Made: ${made.join(', ')}.` : ''
  throw new AppError('unavailable', `Not all forks could be made: ${failed.error?.message}${madeText}`)
}

async function kill({ words, flags, json }: Given, { connect }: SandboxCommandParts): Promise<string> {
  const isAll = flags.has('all')
  if (isAll && words.length > 0) throw new UsageError('--all takes no sandboxes beside it.', command)
  if (!isAll && words.length === 0) throw new UsageError('SANDBOX is missing.', command)
  const client = await connect()
  const wanted = isAll
    ? (await client.listSandboxes({})).map(({ sandboxID }) => sandboxID)
    : await Promise.all(words.map((word) => sandboxIDOf(client, word)))
  const failures: unknown[] = []
  for (const sandboxID of wanted) {
    await client.kill(sandboxID).catch((error) => {
      // A sandbox may have ended by itself after it was listed.
      if (!isAll || !isAppError(error, 'not_found')) failures.push(error)
    })
  }
  if (failures.length > 0) throw failures[0]
  if (json) return asJson(wanted.map((sandboxID) => ({ sandboxID, killed: true })))
  return wanted.length === 0
    ? 'There are no sandboxes.'
    : wanted.map((id) => `The sandbox ${id} is killed.`).join('\n')
}

function gpusOf({ gpuCount }: Pick<ListedSandbox, 'gpuCount'>): string {
  return gpuCount === undefined ? '' : `, ${gpuCount} ${gpuCount === 1 ? 'GPU' : 'GPUs'}`
}
