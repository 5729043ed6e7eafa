/**
 * A cluster of real Warrens for tests: each with a data folder and a network namespace of its own, as if it were a machine
 * of its own, over one real PostgreSQL. A machine can be cut off from all others, and from the database alone.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Sandbox } from 'e2b'
import { Client } from 'pg'
import { loseMachine } from './leftovers.ts'
import { type MachineNetwork, makeMachineNetwork, type TestMachine } from './machine-network.ts'
import { startPostgres, type TestPostgres } from './postgres.ts'
import { openLink, type SeverableLink } from './severable-link.ts'
import { cacheFolder, type Isolation, noWarmPool, seat, startWarren, type Warren } from './warren.ts'
import { type Ended, runCommandLine } from './warren-command.ts'

export type ClusterMember = {
  warren: Warren
  nodeID: string
  /** Between the node and PostgreSQL. */
  database: SeverableLink
  machine: TestMachine
  /**
   * The same node again, with what it had; ends the old process by the signal first. A launcher of another
   * release stays in use.
   */
  restart(signal: 'stop' | 'crash', program?: string): Promise<void>
  /** Starts the stopped node with these settings, which it keeps if it starts. */
  startWith(settings: Record<string, string>): Promise<void>
  /** As if the power of its machine failed: what runs there is gone, what is on its disk stays. */
  losePower(): Promise<void>
  /** Runs the `warren` command on its machine. */
  command(...args: string[]): Promise<Ended>
}

type Row = Record<string, unknown>

export type TestCluster = {
  members: ClusterMember[]
  postgres: TestPostgres
  databaseURL: string
  /** The member that has the sandbox, by its row. */
  ownerOf(sandboxID: string): Promise<ClusterMember>
  /** Creates sandboxes at the door of this member until one is placed on it. */
  createOn(index: number): Promise<Sandbox>
  /** Rows of the database that all members share. */
  read(text: string, values?: readonly unknown[]): Promise<Row[]>
  stop(): Promise<void>
}

export type ClusterOptions = {
  count?: number
  /** For all nodes, which reach this process by the address. */
  settings?: (hostAddress: string) => Promise<Record<string, string>>
  /** The launcher; that of this project unless given. */
  program?: string
}

export async function startCluster(isolation: Isolation, options: ClusterOptions = {}): Promise<TestCluster> {
  const { count = 3 } = options
  const network = await makeMachineNetwork(isolation)
  const postgres = await startPostgres()
  const url = new URL(await postgres.createDatabase())
  const socket = join(decodeURIComponent(url.hostname || /@([^/]+)\//.exec(url.href)![1]!), '.s.PGSQL.5432')
  const secretsFolder = join(cacheFolder, `secrets-${isolation}-${seat}`)
  makeSecrets(secretsFolder)
  const settings = {
    WARREN_SECRETS_DIR: secretsFolder,
    WARREN_HOST: '0.0.0.0',
    ...noWarmPool,
    ...(await options.settings?.(network.hostAddress)),
  }
  const start = (index: number) =>
    startMember(isolation, index, {
      network,
      socket,
      database: url.pathname.slice(1),
      settings,
      ...(options.program && { program: options.program }),
    })
  // The first alone, as on a cluster that grows: it makes the tables.
  const first = await Promise.allSettled([start(0)])
  const others = Array.from({ length: count - 1 }, (_, index) => start(index + 1))
  const started = [...first, ...(await Promise.allSettled(others))]
  const members = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const stop = async () => {
    await Promise.all(members.map(({ warren }) => warren.stop()))
    // What a node had that was forgotten lives on for a while.
    for (const { warren } of members) await loseMachine(warren.dataFolder)
    for (const { database } of members) database.close()
    await network.remove()
    await postgres.stop()
  }
  const failed = started.find((one) => one.status === 'rejected')
  if (failed) {
    await stop()
    throw failed.reason
  }
  const read = (text: string, values: readonly unknown[] = []) => query(url.href, text, values)
  const ownerOf = async (sandboxID: string) => {
    const [row] = await read('select node_id from sandboxes where id = $1', [sandboxID])
    return members.find(({ nodeID }) => nodeID === row?.node_id)!
  }
  const createOn = async (index: number) => {
    const { warren, nodeID } = members[index]!
    for (let attempt = 0; attempt < 30; attempt++) {
      const sandbox = await Sandbox.create(warren.client)
      if ((await ownerOf(sandbox.sandboxId)).nodeID === nodeID) return sandbox
      await sandbox.kill()
    }
    throw new Error(`No sandbox was placed on node ${index}.`)
  }
  return { members, postgres, databaseURL: url.href, stop, ownerOf, createOn, read }
}

async function query(url: string, text: string, values: readonly unknown[]): Promise<Row[]> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query(text, [...values]).finally(() => client.end())
  return rows as Row[]
}

type MemberParts = {
  network: MachineNetwork
  socket: string
  database: string
  settings: Record<string, string>
  program?: string
}

async function startMember(
  isolation: Isolation,
  index: number,
  { network, socket, database: name, settings, program: first }: MemberParts,
): Promise<ClusterMember> {
  let program = first
  let later: Record<string, string> = {}
  const machine = await network.addMachine(index)
  const database = await openLink({ path: socket }, network.hostAddress)
  const start = (keepData: boolean, more = later) =>
    startWarren(isolation, {
      keepData,
      name: `node-${index}`,
      machine,
      ...(program && { program }),
      settings: {
        WARREN_DATABASE_URL: `postgres://warren@${network.hostAddress}:${database.port}/${name}`,
        WARREN_PEER_ADDRESS: `${machine.address}:7443`,
        ...settings,
        ...more,
      },
    })
  const warren = await start(false).catch((error) => {
    // An open port would keep this process, and its caller, alive.
    database.close()
    throw error
  })
  const nodeID = await readNodeID(warren)
  const member: ClusterMember = {
    warren,
    nodeID,
    database,
    machine,
    async restart(signal, other) {
      await member.warren[signal]()
      program = other ?? program
      member.warren = await start(true)
    },
    async startWith(more) {
      member.warren = await start(true, { ...later, ...more })
      later = { ...later, ...more }
    },
    async losePower() {
      await member.warren.crash()
      await loseMachine(member.warren.dataFolder)
    },
    command: (...args) =>
      runCommandLine(
        { WARREN_DATA_DIR: member.warren.dataFolder, WARREN_SECRETS_DIR: settings.WARREN_SECRETS_DIR! },
        args,
        { namespace: machine.namespace },
      ),
  }
  return member
}

async function readNodeID({ dataFolder }: Warren): Promise<string> {
  const { readFile } = await import('node:fs/promises')
  return JSON.parse(await readFile(join(dataFolder, 'node.json'), 'utf8')).nodeID
}

function makeSecrets(folder: string): void {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const hex = (digit: string) => digit.repeat(64)
  writeFileSync(join(folder, 'secrets.json'), JSON.stringify({ seed: hex('1'), adminToken: hex('2') }), {
    mode: 0o600,
  })
  writeFileSync(join(folder, 'secret-key.json'), JSON.stringify({ key: hex('3') }), { mode: 0o600 })
}
