/**
 * Many machines: what creates, lists and lookups take with 1,000 nodes and 10,000 sandboxes over one real PostgreSQL, how
 * evenly the sandboxes lie, and what the nodes cost by themselves. No node is real.
 */
import { renewEveryMs } from '../../../src/core/cluster/node.ts'
import { type PlacementDemand, rankNodes } from '../../../src/core/cluster/rank-nodes.ts'
import type { Team } from '../../../src/core/team/team.ts'
import { errorText } from '../../../src/lib/app-error.ts'
import { delay } from '../../../src/lib/clock.ts'
import { randomBelow } from '../../../src/lib/ids.ts'
import { addTeam, openFixture } from '../../support/domain.ts'
import { startPostgres } from '../../support/postgres.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { FakeCluster } from '../fake-cluster.ts'
import type { FakeNode } from '../fake-nodes.ts'
import { type Row, timed, type Unit } from '../measure.ts'
import { familyMs, parentOf } from '../processes.ts'
import type { Report } from '../report.ts'

/** Number of nodes that receive requests, as from a load balancer; the others only run sandboxes. */
const doorCount = 16
const teamCount = 20
/** Clients that wait for their create before they ask for the next one. */
const clients = 32
/** How often each thing is tried that is measured one at a time. */
const tries = 500
const readsOfNodes = 50
const restMs = 10_000
const pageSize = 100
const unlimited = { maxSandboxes: 1e6, maxCPU: 1e7, maxMemoryMB: 1e9 }
const baseBuildID = '11111111-1111-4111-8111-111111111111'
const aSandbox = { templateID: 'basetemplate', cpuCount: 2, memoryMB: 512, isBound: false }

type Sizes = { nodes: number; sandboxes: number }

export async function cluster(machine: BenchMachine, { nodes, sandboxes }: Sizes): Promise<Report> {
  const postgres = await startPostgres({ durable: true })
  try {
    const url = await postgres.createDatabase()
    const teams = await makeTeams(url)
    machine.say(`  ${nodes} nodes join`)
    const fake = await FakeCluster.open(url, { nodes, doors: doorCount })
    try {
      const rows = await new ClusterMeasurement(fake, teams, machine).measure(sandboxes)
      return { title: titleOf({ nodes, sandboxes }), rows }
    } finally {
      await fake.close()
    }
  } finally {
    await postgres.stop()
  }
}

const titleOf = ({ nodes, sandboxes }: Sizes): string =>
  `Many machines: ${nodes.toLocaleString('en')} nodes that are not real, ${sandboxes.toLocaleString('en')} sandboxes; ` +
  `requests come in at ${Math.min(doorCount, nodes)} of the nodes; all share this machine with PostgreSQL`

/** Makes the tables, too, and a base template whose bytes every node has. */
async function makeTeams(url: string): Promise<Team[]> {
  await using fixture = await openFixture({ url, nodeID: 'node-0' })
  await fixture.stores.remoteBytes.markBuild(baseBuildID, { at: 0, needs: null })
  const teams: Team[] = []
  for (let number = 0; number < teamCount; number++) teams.push(await addTeam(fixture, `team${number}`))
  return teams.map((team) => ({ ...team, limits: { ...team.limits, ...unlimited } }))
}

type Made = { sandboxID: string; team: Team }
type Created = { made: Made[]; samples: number[]; failures: string[] }
/** CPU time in milliseconds, and statements. */
type Spent = {
  ms: number
  postgresMs: number
  nodesMs: number
  requests: number
  signsOfLife: number
  walBytes: number
  walSyncs: number
}

class ClusterMeasurement {
  readonly #cluster: FakeCluster
  readonly #doors: readonly FakeNode[]
  readonly #teams: readonly Team[]
  readonly #machine: BenchMachine
  #postgresPid = 0

  constructor(nodes: FakeCluster, teams: readonly Team[], machine: BenchMachine) {
    this.#cluster = nodes
    this.#doors = nodes.doors
    this.#teams = teams
    this.#machine = machine
  }

  async measure(sandboxes: number): Promise<Row[]> {
    const { say, signal } = this.#machine
    this.#postgresPid = parentOf(await this.#cluster.readBackendPid())
    await this.#cluster.giveSignsOfLife()
    say('  signs of life, and no requests')
    // Until each node has given one.
    await delay(2 * renewEveryMs, signal)
    const [rest] = await this.#spent(() => delay(restMs, signal))
    say(`  ${sandboxes} creates`)
    const [spent, filled] = await this.#spent(() => this.#create(sandboxes, clients, this.#teams))
    const spread = await this.#spread()
    say('  creates, lists and lookups beside them')
    const few = Math.min(tries, sandboxes)
    const single = await this.#create(few, 1, this.#teams)
    const [ofOne, ofOneTeam] = await this.#spent(() => this.#create(few, clients, this.#teams.slice(0, 1)))
    const looks = await this.#look(filled.made)
    await this.#cluster.stopSignsOfLife()
    return [
      row('creates', '/s', [(1000 * filled.samples.length) / spent.ms]),
      { ...row(`create, ${clients} at a time`, 'ms', filled.samples), failures: filled.failures },
      { ...row('create, one at a time', 'ms', single.samples), failures: single.failures },
      {
        ...row('creates of one team alone', '/s', [(1000 * ofOneTeam.samples.length) / ofOne.ms]),
        failures: ofOneTeam.failures,
      },
      ...looks,
      ...costRows(spent, rest, filled.samples.length),
      ...spread,
      ...restRows(rest, await this.#cluster.failures()),
      ...(await this.#nodeRows()),
    ]
  }

  async #create(count: number, atOnce: number, teams: readonly Team[]): Promise<Created> {
    const created: Created = { made: [], samples: [], failures: [] }
    let asked = 0
    const client = async () => {
      while (asked++ < count) {
        this.#machine.signal.throwIfAborted()
        const team = anyOf(teams)
        try {
          const [ms, sandboxID] = await timed(() => anyOf(this.#doors).create({ team, isFromPeer: false }))
          created.samples.push(ms)
          created.made.push({ sandboxID: sandboxID!, team })
        } catch (error) {
          created.failures.push(errorText(error))
        }
      }
    }
    await Promise.all(Array.from({ length: atOnce }, client))
    return created
  }

  async #look(made: readonly Made[]): Promise<Row[]> {
    const states = ['running', 'paused'] as const
    const list = () =>
      anyOf(this.#doors).service.list(
        { teamID: anyOf(this.#teams).teamID, states },
        { order: 'desc', limit: pageSize },
      )
    const show = () => {
      const { team, sandboxID } = anyOf(made)
      return anyOf(this.#doors).service.show(team, sandboxID)
    }
    const route = () =>
      anyOf(this.#doors).router.route({ kind: 'sandbox', id: anyOf(made).sandboxID }, { isFromPeer: false })
    return [
      row(`list, the first ${pageSize} of a team`, 'ms', await repeat(tries, list)),
      row('lookup of a sandbox', 'ms', await repeat(tries, show)),
      row('lookup of its node, which the door does not remember', 'ms', await repeat(tries, route)),
    ]
  }

  async #spread(): Promise<Row[]> {
    const loads = await this.#cluster.loads()
    const mean = loads.reduce((sum, load) => sum + load, 0) / loads.length
    return [
      row('sandboxes of the fullest node, against the mean', '×', [Math.max(...loads) / mean]),
      row(
        'sandboxes of each node, against the mean',
        '×',
        loads.map((load) => load / mean),
      ),
    ]
  }

  /** Measures the operations of a door that involve all nodes, without other load. */
  async #nodeRows(): Promise<Row[]> {
    const { nodes } = this.#doors[0]!.stores
    const [spent, reads] = await this.#spent(() => repeat(readsOfNodes, () => nodes.list()))
    const known = await nodes.list()
    const choose = (demand: PlacementDemand) => async () =>
      rankNodes(known, demand, { sentTo: () => ({ cpuCount: 0, memoryMB: 0 }), drawBelow: randomBelow })
    const base = { ...aSandbox, builder: undefined, buildID: undefined }
    const built = { ...aSandbox, builder: known[0]!.nodeID, buildID: baseBuildID }
    return [
      row('one read of all nodes', 'ms', reads),
      row('one read of all nodes, CPU of PostgreSQL', 'ms', [spent.postgresMs / readsOfNodes]),
      row('one read of all nodes, CPU of the door', 'ms', [spent.nodesMs / readsOfNodes]),
      row('one read of all nodes, size as JSON', 'MB', [JSON.stringify(known).length / 1e6]),
      row('choice of a node, base template', 'ms', await repeat(tries, choose(base))),
      row('choice of a node, template that a node has built', 'ms', await repeat(tries, choose(built))),
    ]
  }

  async #spent<T>(work: () => Promise<T>): Promise<[Spent, T]> {
    const now = async (): Promise<Omit<Spent, 'ms'>> => {
      const { cpuMs: nodesMs, statements } = await this.#cluster.done()
      const { requests, 'signs of life': signsOfLife } = statements
      const postgresMs = familyMs(this.#postgresPid)
      const wal = await this.#cluster.readWal()
      return { postgresMs, nodesMs, requests, signsOfLife, ...wal }
    }
    const before = await now()
    const [ms, result] = await timed(work)
    const after = await now()
    const since = (key: keyof typeof after): number => after[key] - before[key]
    const spent: Spent = {
      ms,
      postgresMs: since('postgresMs'),
      nodesMs: since('nodesMs'),
      requests: since('requests'),
      signsOfLife: since('signsOfLife'),
      walBytes: since('walBytes'),
      walSyncs: since('walSyncs'),
    }
    return [spent, result]
  }
}

/** What the nodes do without requests is taken off. */
function costRows(spent: Spent, rest: Spent, creates: number): Row[] {
  const each = (key: 'postgresMs' | 'nodesMs' | 'walBytes') =>
    (spent[key] - (rest[key] * spent.ms) / rest.ms) / creates
  return [
    row('a create, without begin and commit', 'statements', [spent.requests / creates]),
    row('a create, CPU of PostgreSQL', 'ms', [each('postgresMs')]),
    row('a create, CPU of the nodes', 'ms', [each('nodesMs')]),
    row('a create, log of PostgreSQL', 'kB', [each('walBytes') / 1000]),
    // Signs of life may cause some of them.
    row('syncs of the disk for each create', '×', [spent.walSyncs / creates]),
    row('CPU of PostgreSQL during the creates, of one core', '%', [(100 * spent.postgresMs) / spent.ms]),
    row('CPU of all nodes during the creates, of one core', '%', [(100 * spent.nodesMs) / spent.ms]),
  ]
}

function restRows(rest: Spent, failures: string[]): Row[] {
  return [
    { ...row('signs of life, statements', '/s', [(1000 * rest.signsOfLife) / rest.ms]), failures },
    row('signs of life, syncs of the disk', '/s', [(1000 * rest.walSyncs) / rest.ms]),
    row('signs of life, CPU of PostgreSQL, of one core', '%', [(100 * rest.postgresMs) / rest.ms]),
    row('signs of life, CPU of all nodes, of one core', '%', [(100 * rest.nodesMs) / rest.ms]),
  ]
}

const anyOf = <T>(list: readonly T[]): T => list[randomBelow(list.length)]!

async function repeat(times: number, work: () => Promise<unknown>): Promise<number[]> {
  const samples: number[] = []
  for (let time = 0; time < times; time++) samples.push((await timed(work))[0])
  return samples
}

const row = (name: string, unit: Unit, samples: number[]): Row => ({ name, unit, samples, failures: [] })
