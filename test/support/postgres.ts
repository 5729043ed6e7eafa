/** A real PostgreSQL server of the tests' own, in a temporary folder, reachable only through its socket there. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { Client } from 'pg'
import { spawnBound } from './spawn-bound.ts'

export type TestPostgres = {
  /** The URL of a new, empty database. */
  createDatabase(): Promise<string>
  /**
   * Ends who uses the empty databases handed out so far, and hands these out again. To make or to remove one are a
   * thousand files each, to empty one is a tenth of that.
   */
  takeBackDatabases(): Promise<void>
  /**
   * A database for tests one after the other, each of which removes its rows. Whoever keeps it open keeps its sessions
   * as well: to begin one and to plan its first statements takes longer than most tests.
   */
  createSharedDatabase(): Promise<{ url: string; removeRows(): Promise<void> }>
  /** Runs SQL outside of any of those databases. */
  execute(text: string): Promise<void>
  /** Stops the server, or only its sessions, where they are. The kernel still accepts connections. */
  freeze(what: 'all' | 'sessions'): void
  thaw(): void
  stop(): Promise<void>
}

type User = { uid: number; gid: number }

const packagesFolder = '/usr/lib/postgresql'
const superuser = 'warren'
const endOthers =
  'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()'
const removeTables = `${endOthers}; drop schema public cascade; create schema public`
/** Without triggers, so that the order of the tables does not matter. */
const removeRows = `do $$ declare name text; begin
    set local session_replication_role = replica;
    for name in select tablename from pg_tables where schemaname = 'public' and tablename not like 'kysely%' loop
      execute format('delete from %I', name);
    end loop;
  end $$`

/** What a server does for a database that lives long, or for queries that take long, is wasted here. */
const sparing = [
  'jit=off',
  'autovacuum=off',
  'full_page_writes=off',
  'wal_level=minimal',
  'max_wal_senders=0',
]

/** Why there is no server to be had here, or undefined. */
export function postgresMissing(): string | undefined {
  return programsFolder() === undefined
    ? `no PostgreSQL server in ${packagesFolder}: install the package postgresql`
    : undefined
}

/** Set where every part must be proved: a test that would be skipped fails there instead. */
export const everythingRequired = Boolean(process.env.CI || process.env.WARREN_TEST_REQUIRE)

/** A server for the tests of one file: pass them the options, which skip a test where there is none. */
export function postgresForTests() {
  const missing = postgresMissing()
  const options = missing && !everythingRequired ? { skip: missing } : {}
  let server: TestPostgres | undefined
  before(async () => {
    if (!('skip' in options)) server = await startPostgres()
  })
  after(() => server?.stop())
  return { options, server: () => server! }
}

/** Durable: a commit waits for the disk, as it does for users. */
export async function startPostgres({ durable = false } = {}): Promise<TestPostgres> {
  const programs = programsFolder()
  if (programs === undefined) throw new Error(postgresMissing())
  const folder = mkdtempSync(join(tmpdir(), 'warren-postgres-'))
  const user = serverUser()
  if (user) chownSync(folder, user.uid, user.gid)
  const data = join(folder, 'data')
  try {
    const init = ['-D', data, '-U', superuser, '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync']
    await finished(start(join(programs, 'initdb'), init, folder, user))
    const settings = [
      'listen_addresses=',
      `fsync=${durable ? 'on' : 'off'}`,
      'max_connections=60',
      ...(durable ? [] : sparing),
      `unix_socket_directories=${folder}`,
    ]
    const options = settings.flatMap((setting) => ['-c', setting])
    const server = start(join(programs, 'postgres'), ['-D', data, ...options], folder, user)
    return await serve(server.child, server.output, folder)
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

async function serve(server: ChildProcess, output: () => string, folder: string): Promise<TestPostgres> {
  const urlOf = (database: string) => `postgres://${superuser}@${encodeURIComponent(folder)}/${database}`
  const execute = async (text: string, database = 'postgres') => {
    const client = new Client({ connectionString: urlOf(database) })
    await client.connect()
    await client.query(text).finally(() => client.end())
  }
  for (let attempt = 0; ; attempt++) {
    const failure = await execute('select 1').then(() => undefined, String)
    if (failure === undefined) break
    if (server.exitCode !== null || attempt > 300)
      throw new Error(`PostgreSQL did not start: ${failure} ${output()}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const clients: Client[] = []
  let count = 0
  const newDatabase = async () => {
    const name = `test_${++count}`
    await execute(`create database ${name}`)
    return name
  }
  const used: string[] = []
  const free: string[] = []
  const frozen: number[] = []
  const thaw = () => {
    for (const pid of frozen.splice(0)) signal(pid, 'SIGCONT')
  }
  return {
    execute,
    freeze(what) {
      if (what === 'all') frozen.push(server.pid!)
      frozen.push(...sessionsOf(server.pid!, what))
      for (const pid of frozen) signal(pid, 'SIGSTOP')
    },
    thaw,
    async createDatabase() {
      const name = free.pop() ?? (await newDatabase())
      used.push(name)
      return urlOf(name)
    },
    async createSharedDatabase() {
      const url = urlOf(await newDatabase())
      const client = new Client({ connectionString: url })
      await client.connect()
      clients.push(client)
      return { url, removeRows: async () => void (await client.query(removeRows)) }
    },
    async takeBackDatabases() {
      for (const name of used.splice(0)) {
        await execute(removeTables, name)
        free.push(name)
      }
    },
    async stop() {
      thaw()
      await Promise.all(clients.map((client) => client.end()))
      if (server.exitCode === null) {
        // Ends open sessions and then the server.
        server.kill('SIGINT')
        await once(server, 'exit')
      }
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** The processes of the server, or only those that serve a client. */
function sessionsOf(server: number, what: 'all' | 'sessions'): number[] {
  const children = readFileSync(`/proc/${server}/task/${server}/children`, 'utf8').trim().split(' ')
  const isSession = (pid: number) =>
    readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(`postgres: ${superuser} `)
  return children
    .filter(Boolean)
    .map(Number)
    .filter((pid) => what === 'all' || isSession(pid))
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended.
  }
}

function programsFolder(): string | undefined {
  if (!existsSync(packagesFolder)) return undefined
  const versions = readdirSync(packagesFolder).sort((a, b) => Number(b) - Number(a))
  const folders = versions.map((version) => join(packagesFolder, version, 'bin'))
  return folders.find((folder) => existsSync(join(folder, 'postgres')) && existsSync(join(folder, 'initdb')))
}

/** The server refuses to run as root. Undefined: this process is not root, and the server runs as the same user. */
function serverUser(): User | undefined {
  if (process.getuid?.() !== 0) return undefined
  const accounts = readFileSync('/etc/passwd', 'utf8').split('\n')
  const account = accounts.find((line) => line.startsWith('postgres:')) ?? 'nobody:x:65534:65534'
  const [, , uid, gid] = account.split(':')
  return { uid: Number(uid), gid: Number(gid) }
}

function start(program: string, args: string[], cwd: string, user: User | undefined) {
  const child = spawnBound(program, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'], ...user })
  const said: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream!.on('data', (chunk) => said.push(chunk))
  return { child, output: () => Buffer.concat(said).toString() }
}

async function finished({ child, output }: ReturnType<typeof start>): Promise<void> {
  const [exitCode] = await once(child, 'exit')
  if (exitCode !== 0) throw new Error(`initdb ended with ${exitCode}: ${output()}`)
}
