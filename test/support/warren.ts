/**
 * A real Warren for tests: the launcher a user runs, as a process of its own, on a data folder of its own.
 * The data folder of each seat and isolation is kept between test files; rows and sandboxes of an earlier file
 * are removed first. The runtimes and the root of the base template exist once for all data folders.
 */
import type { ChildProcess } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import {
  type IsolationName,
  isolations as knownIsolations,
  namesOf,
} from '../../src/app/isolation/isolations.ts'
import { delay } from '../../src/lib/clock.ts'
import { freeNetwork, loseMachine } from './leftovers.ts'
import { spawnBound } from './spawn-bound.ts'

export type Isolation = IsolationName
const allIsolations: readonly Isolation[] = namesOf(knownIsolations).toReversed()
/** Tells the networks and ports of isolations apart. */
export const isolationNumber = (isolation: Isolation) => allIsolations.indexOf(isolation)
/** All of them, the quickest first, unless a developer narrows it down for one run. */
export const isolations: readonly Isolation[] = process.env.WARREN_TEST_ISOLATION
  ? [process.env.WARREN_TEST_ISOLATION as Isolation]
  : allIsolations

/** For tests of what does not depend on it. */
export const anyIsolation = isolations[0]!

export const repoFolder = resolve(import.meta.dirname, '../..')
/** A developer may run tests beside others: each place has ports, networks and folders of its own. */
export const testPlace = Number(process.env.WARREN_TEST_PLACE ?? 0)
/** The runner runs files beside each other: within its place each seat has ports, networks and data folders of its own. */
export const seat = Number(process.env.WARREN_TEST_SEAT ?? 0)
/** Number of Warrens for which a test place has networks. */
export const maxSeats = 8

export const cacheFolder = realFolder(join(repoFolder, '.cache', testPlace === 0 ? '' : `place-${testPlace}`))
/** The runtimes and the root of the base template, for tests of every place. */
export const machineFolder = realFolder(join(repoFolder, '.cache', 'machine'))

function realFolder(path: string): string {
  mkdirSync(path, { recursive: true })
  return realpathSync(path)
}

/** Below 32768, where the kernel takes ports from for connections. */
export const portOf = (isolation: Isolation, ownSeat: number) =>
  22_000 + 1000 * testPlace + 100 * ownSeat + 20 * isolationNumber(isolation)

/** Place 0 has 10.214 to 10.217, place 1 has 10.204 to 10.207, and so on: a quarter of each for a seat and isolation. */
export const subnetOf = (isolation: Isolation, ownSeat: number) => {
  const quarter = 2 * (ownSeat % 2) + isolationNumber(isolation)
  return `10.${214 - 10 * testPlace + Math.floor(ownSeat / 2)}.${64 * quarter}.0/18`
}

/**
 * The first start on a data folder measures which platform of gVisor is best, which takes seconds and errs where others
 * keep the machine busy. The runner's shared server does; its files, each on a seat, take the usual one.
 */
const seatSettings: Record<string, string> =
  process.env.WARREN_TEST_SEAT === undefined ? {} : { WARREN_GVISOR_PLATFORM: 'systrap' }

const startWithinMs = 20 * 60_000

export type Warren = {
  isolation: Isolation
  url: string
  apiKey: string
  /** The team that the key belongs to, as the routes of the operator name it. */
  team: string
  dataFolder: string
  logFile: string
  /** The id of the server's process; 0 where it is shared. */
  pid: number
  adminToken: string
  /** Options for `Sandbox.create` and its like, of any client. */
  client: { apiKey: string; apiUrl: string; sandboxUrl: string; requestTimeoutMs: number }
  environment: Record<string, string>
  api(path: string, options?: ApiOptions): Promise<Response>
  /** Ctrl-C, and waits for the end. */
  stop(): Promise<number | null>
  /** kill -9, and waits for the end. */
  crash(): Promise<void>
}

export type ApiOptions = {
  method?: string
  body?: unknown
  rawBody?: string | Uint8Array
  headers?: Record<string, string>
  key?: string | null
  signal?: AbortSignal
}

export type StartOptions = {
  /** Keep the rows and sandboxes that an earlier Warren on this folder has. */
  keepData?: boolean
  settings?: Record<string, string>
  /** Distinguishes several data folders of one isolation. */
  name?: string
  portOffset?: number
  /** Another than that of this process. */
  seat?: number
  /** Where it runs as if it were alone on a machine; on this one unless given. */
  machine?: { namespace: string; address: string }
  /** The launcher; that of this project unless given. */
  program?: string
}

/** Settings for tests that have nothing to do with warm sandboxes: each start and each template would boot some. */
export const noWarmPool = { WARREN_WARM_SANDBOXES: '0' }

/** Where the runner tells of the server that files of a lane share. */
export const sharedServerVariable = 'WARREN_TEST_SERVER'
export type SharedServer = Pick<Warren, 'isolation' | 'url' | 'adminToken' | 'dataFolder' | 'logFile'>

/**
 * A team of its own on the server that the runner shares among files, or, run by hand, a Warren of its own. It is for
 * tests that need no settings, no restart, and nothing but what their team sees.
 */
export async function joinWarren(isolation: Isolation): Promise<Warren> {
  const given = process.env[sharedServerVariable]
  if (given === undefined) return startWarren(isolation)
  const server = JSON.parse(given) as SharedServer
  if (server.isolation !== isolation) throw new Error(`The shared server isolates by ${server.isolation}.`)
  const asAdmin = async (path: string, body: object) => {
    const headers = { 'X-Admin-Token': server.adminToken }
    const answer = await callApi(server.url, '', path, { headers, key: null, body })
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`)
    return (await answer.json()) as Record<string, string>
  }
  const { teamID } = await asAdmin('/admin/teams', { name: `test ${process.pid} ${Date.now()}` })
  const { key } = await asAdmin(`/admin/teams/${teamID}/api-keys`, { name: 'test' })
  return {
    ...server,
    ...clientOf(server.url, key!),
    team: teamID!,
    pid: 0,
    stop: async () => {
      await killAll(server.url, key!)
      return 0
    },
    crash: () => Promise.reject(new Error('Other tests use this server too: take one from startWarren.')),
  }
}

function clientOf(url: string, apiKey: string): Pick<Warren, 'apiKey' | 'client' | 'environment' | 'api'> {
  return {
    apiKey,
    // A busy machine may take longer than the minute that clients wait by themselves.
    client: { apiKey, apiUrl: url, sandboxUrl: url, requestTimeoutMs: 300_000 },
    environment: { E2B_API_KEY: apiKey, E2B_API_URL: url, E2B_SANDBOX_URL: url, E2B_VOLUME_API_URL: url },
    api: (path, options = {}) => callApi(url, apiKey, path, options),
  }
}

/** Everything that a team has running or paused. */
async function killAll(url: string, apiKey: string): Promise<void> {
  for (;;) {
    const listed = await callApi(url, apiKey, '/v2/sandboxes?state=running,paused', {})
    const sandboxes = (await listed.json()) as { sandboxID: string }[]
    if (sandboxes.length === 0) return
    for (const { sandboxID } of sandboxes) {
      await callApi(url, apiKey, `/sandboxes/${sandboxID}`, { method: 'DELETE' })
    }
  }
}

/** The data folder of the Warren with this name. */
export function dataFolderOf(isolation: Isolation, name?: string, ownSeat = seat): string {
  const parts = ['data', isolation, ...(ownSeat > 0 ? [ownSeat] : []), ...(name === undefined ? [] : [name])]
  return join(cacheFolder, parts.join('-'))
}

export async function startWarren(isolation: Isolation, options: StartOptions = {}): Promise<Warren> {
  const ownSeat = options.seat ?? seat
  const dataFolder = dataFolderOf(isolation, options.name, ownSeat)
  const port = portOf(isolation, ownSeat) + (options.portOffset ?? 0)
  const settings: Record<string, string> = {
    WARREN_DATA_DIR: dataFolder,
    WARREN_PORT: String(port),
    WARREN_SUBNET: subnetOf(isolation, ownSeat),
    WARREN_ISOLATION: isolation,
    WARREN_ALLOW_INSECURE_SANDBOXES: 'yes',
    WARREN_VOLUME_MB: '128',
    ...seatSettings,
    ...options.settings,
  }
  await mkdir(dataFolder, { recursive: true })
  linkMachine(dataFolder)
  if (!options.keepData) {
    const database = ['', '-wal', '-shm'].map((suffix) => `warren.db${suffix}`)
    const secrets = ['secrets.json', 'secret-key.json']
    for (const name of ['server.json', 'credentials.json', 'node.json', ...secrets, ...database])
      rmSync(join(dataFolder, name), { force: true })
    await (options.machine ? loseMachine(dataFolder) : freeNetwork(settings.WARREN_SUBNET!))
    // A Warren without their rows would keep them: somebody might want them.
    for (const name of ['sandboxes', 'saved', 'volumes'])
      rmSync(join(dataFolder, name), { recursive: true, force: true })
  }
  const logFile = join(dataFolder, 'server.log')
  if (!options.keepData) writeFileSync(logFile, '')
  const log = openSync(logFile, 'a')
  const program = options.program ?? join(repoFolder, 'bin/warren')
  const { machine } = options
  const [first, ...more] = [...(machine ? ['nsenter', `--net=${machine.namespace}`] : []), program, 'start']
  const child = spawnBound(first!, more, {
    env: { ...withoutWarren(process.env), ...settings },
    stdio: ['ignore', log, log],
    detached: true,
  })
  const exited = new Promise<number | null>((done) => child.once('exit', done))
  await untilServing(child, dataFolder, logFile)
  const credentials = JSON.parse(readFileSync(join(dataFolder, 'credentials.json'), 'utf8'))
  const secretsFolder = settings.WARREN_SECRETS_DIR ?? dataFolder
  const secrets = JSON.parse(readFileSync(join(secretsFolder, 'secrets.json'), 'utf8'))
  const url = `http://${machine?.address ?? '127.0.0.1'}:${settings.WARREN_PORT}`
  return {
    isolation,
    url,
    dataFolder,
    logFile,
    pid: child.pid!,
    adminToken: secrets.adminToken,
    team: 'default',
    ...clientOf(url, credentials.apiKey),
    stop: () => {
      child.kill('SIGINT')
      return exited
    },
    crash: async () => {
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** The first start on a data folder finds here what it would make otherwise. */
function linkMachine(dataFolder: string): void {
  for (const name of ['runtimes', 'templates']) {
    mkdirSync(join(machineFolder, name), { recursive: true, mode: 0o711 })
    if (!existsSync(join(dataFolder, name))) symlinkSync(join(machineFolder, name), join(dataFolder, name))
  }
}

function callApi(url: string, apiKey: string, path: string, options: ApiOptions): Promise<Response> {
  const key = options.key === undefined ? apiKey : options.key
  const body = options.rawBody ?? (options.body === undefined ? undefined : JSON.stringify(options.body))
  return fetch(url + path, {
    method: options.method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(key !== null && { 'X-API-Key': key }),
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
      ...options.headers,
    },
    ...(body !== undefined && { body }),
    ...(options.signal && { signal: options.signal }),
  })
}

async function untilServing(child: ChildProcess, dataFolder: string, logFile: string): Promise<void> {
  const deadline = Date.now() + startWithinMs
  while (servingPid(dataFolder) !== child.pid) {
    if (child.exitCode !== null || child.signalCode !== null || Date.now() > deadline) {
      throw new Error(`Warren did not start:\n${readFileSync(logFile, 'utf8').slice(-4000)}`)
    }
    await delay(50)
  }
}

/** One that was killed leaves its file behind. */
function servingPid(dataFolder: string): number | undefined {
  const file = join(dataFolder, 'server.json')
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).pid : undefined
}

function withoutWarren(env: NodeJS.ProcessEnv): Record<string, string> {
  const entries = Object.entries(env).filter(([name]) => !/^(WARREN|E2B)_/.test(name))
  return Object.fromEntries(entries) as Record<string, string>
}
