/**
 * What it costs to come in at the door of another node than the one that has the sandbox: two real Warrens over one
 * PostgreSQL, both on this machine, so that the network between them costs nothing.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Sandbox } from 'e2b'
import { Client } from 'pg'
import { randomHex } from '../../../src/lib/ids.ts'
import { startPostgres } from '../../support/postgres.ts'
import {
  cacheFolder,
  type Isolation,
  noWarmPool,
  portOf,
  seat,
  startWarren,
  testPlace,
  type Warren,
} from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { type Contender, type Row, rowName, takeTurns, timed } from '../measure.ts'
import { medianOf, type Report } from '../report.ts'

/** One alone is shorter than what disturbs it. */
const requestsPerSample = 20
const samplesPerRound = 4
const atMost = 1.3
const own = 'its own door'
const other = 'the door of another node'
const steps = { command: 'a command', request: 'a request' }

export async function hop(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const rows: Row[] = []
  const postgres = await startPostgres({ durable: true })
  try {
    for (const isolation of machine.isolations) {
      machine.say(`  two Warrens, ${isolation}`)
      rows.push(...(await measure(isolation, await postgres.createDatabase(), machine.signal, rounds)))
    }
  } finally {
    await postgres.stop()
  }
  const targets = machine.isolations.map((isolation) => {
    const [near, far] = [own, other].map((door) => rowName(`${isolation}, ${door}`, steps.command))
    const value = medianOf({ rows }, far!) / medianOf({ rows }, near!)
    return { promise: `${isolation}, ${steps.command} through ${other}`, value, atMost, unit: ' ×' }
  })
  const references = machine.isolations.map((isolation) => {
    const contender = `${isolation}, ${own}`
    return { label: contender, contender }
  })
  return { title: 'The cost of a hop from one node to another', rows, references, targets }
}

async function measure(
  isolation: Isolation,
  url: string,
  signal: AbortSignal,
  rounds: number,
): Promise<Row[]> {
  const secretsFolder = join(cacheFolder, `secrets-bench-${isolation}`)
  makeSecrets(secretsFolder)
  const nodes: Warren[] = []
  try {
    // One after the other: the first makes the tables.
    for (const index of [0, 1]) nodes.push(await startNode(isolation, index, url, secretsFolder))
    const sandbox = await Sandbox.create('base', { ...nodes[0]!.client, timeoutMs: 3_600_000 })
    try {
      const ownerID = await readOwner(url, sandbox.sandboxId)
      const owner = nodes.find((node) => nodeIDOf(node) === ownerID)!
      const contenders = [
        atDoor(`${isolation}, ${own}`, owner, sandbox.sandboxId),
        atDoor(`${isolation}, ${other}`, nodes.find((node) => node !== owner)!, sandbox.sandboxId),
      ]
      return await takeTurns(contenders, { rounds: rounds * samplesPerRound, pauseMs: 50, signal })
    } finally {
      await sandbox.kill()
    }
  } finally {
    for (const node of nodes) await node.stop()
    rmSync(secretsFolder, { recursive: true, force: true })
  }
}

function startNode(isolation: Isolation, index: number, url: string, secretsFolder: string): Promise<Warren> {
  const peerAddress = `127.0.0.1:${portOf(isolation, seat) + 56 + index}`
  const quarter = (isolation === 'gvisor' ? 2 : 0) + index
  return startWarren(isolation, {
    name: `bench-node-${index}`,
    portOffset: 54 + index,
    settings: {
      ...noWarmPool,
      WARREN_DATABASE_URL: url,
      WARREN_SECRETS_DIR: secretsFolder,
      WARREN_PEER_ADDRESS: peerAddress,
      WARREN_PEER_LISTEN: peerAddress,
      WARREN_SUBNET: `10.${223 - 10 * testPlace}.${64 * quarter}.0/18`,
    },
  })
}

function makeSecrets(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const write = (name: string, values: object) =>
    writeFileSync(join(folder, name), JSON.stringify(values), { mode: 0o600 })
  write('secrets.json', { seed: randomHex(32), adminToken: randomHex(32) })
  write('secret-key.json', { key: randomHex(32) })
}

const nodeIDOf = ({ dataFolder }: Warren): string =>
  JSON.parse(readFileSync(join(dataFolder, 'node.json'), 'utf8')).nodeID

async function readOwner(connectionString: string, sandboxID: string): Promise<string> {
  const client = new Client({ connectionString })
  await client.connect()
  const { rows } = await client
    .query('select node_id from sandboxes where id = $1', [sandboxID])
    .finally(() => client.end())
  return rows[0].node_id
}

function atDoor(name: string, warren: Warren, sandboxID: string): Contender {
  let reached: Promise<Sandbox> | undefined
  const each = async (work: () => Promise<unknown>): Promise<number> => {
    const [ms] = await timed(async () => {
      for (let index = 0; index < requestsPerSample; index++) await work()
    })
    return ms / requestsPerSample
  }
  return {
    name,
    async sample() {
      reached ??= Sandbox.connect(sandboxID, warren.client)
      const { commands, files } = await reached
      return {
        [steps.command]: await each(() => commands.run('echo hello')),
        [steps.request]: await each(() => files.exists('/etc/hostname')),
      }
    },
  }
}
