/** The state of one history: machines, clients, what was told, and the trace. It knows no order of events. */
import { sandboxKey } from '../../src/core/archive/keys.ts'
import { defaultTeamLimits, type Team } from '../../src/core/team/team.ts'
import { type FakeWorld, newFakeWorld } from '../../src/drivers/fake/fake-world.ts'
import type { SimulatedDatabase } from './database.ts'
import { handOverFrom } from './hops.ts'
import { type Ask, Ledger, type LedgerEntry } from './ledger.ts'
import { type CallFault, type Note, ParkedCalls, shortID } from './parked-calls.ts'
import type { Plan } from './plan.ts'
import { Random } from './random.ts'
import { RowWatch, type WatchedSandbox } from './row-watch.ts'
import { rootFolder, SimulatedNode, writtenKey } from './simulated-node.ts'
import { SimulatedPacks } from './simulated-packs.ts'
import { SimulatedTime } from './simulated-time.ts'
import { Violation } from './violation.ts'

/** Errors of the store pass: no more than so many in a row. */
const mostFailuresInARow = 2
const hangs = [5000, 20_000, 90_000]
/** How long a statement is on its way to the database once its process died, in milliseconds; undefined: it is lost. */
const lateness = [undefined, undefined, 0, 1000, 20_000]
/** Verbs of the driver that may have taken effect although they reject; the others promise that they have not. */
const mayFailAfterwards = ['stop', 'thaw', 'removeSnapshot', 'limitEgress']
/** As the agent's client gives up. */
const agentDeadlineMs = 30_000

export type HistoryOptions = {
  trace?: boolean
  /** A fault put back in by hand: what these methods of the driver answer when they cannot read. */
  absentReads?: Record<string, unknown>
  /** A fault put back in by hand: all nodes take all rows for their own. */
  oneOwner?: boolean
}

export class Simulation {
  readonly plan: Plan
  readonly database: SimulatedDatabase
  readonly random: Random
  readonly #faultRandom: Random
  readonly #lateRandom: Random
  readonly time = new SimulatedTime()
  readonly ledger = new Ledger()
  readonly trace: string[] = []
  readonly violations: Violation[] = []
  readonly calls: ParkedCalls
  readonly nodes: SimulatedNode[]
  readonly packs: SimulatedPacks
  readonly watch: RowWatch
  readonly teams: Team[]
  step = 0
  /** False once the history is over: what is left is to come to rest without further faults. */
  faultsAreOn = true
  /** In elapsed milliseconds: until then nobody reaches the store. */
  storeIsAwayUntilMs = 0
  objectsAreAwayUntilMs = 0
  leasesAreLostUntilMs = 0
  /** The number of the next request that no plan has. */
  nextRush = 1000
  hadOutage = false
  /** The nodes that the operator forgets at this moment. */
  readonly forgotten = new Set<string>()
  readonly #isTraced: boolean
  readonly #hasOneOwner: boolean
  readonly #absentReads: Record<string, unknown>
  #processes = 0
  #failuresInARow = 0
  #later: { atMs: number; action: () => void }[] = []

  constructor(database: SimulatedDatabase, plan: Plan, options: HistoryOptions) {
    this.#isTraced = options.trace === true
    this.#hasOneOwner = options.oneOwner === true
    this.#absentReads = options.absentReads ?? {}
    this.plan = plan
    this.database = database
    const random = new Random(plan.schedule ^ 0x5eed)
    this.random = random.branch()
    this.#faultRandom = random.branch()
    this.#lateRandom = random.branch()
    this.teams = plan.teams.map(({ slug, limits }) => ({
      ...{ teamID: `team-${slug}`, slug, name: slug, createdAt: 0 },
      limits: { ...defaultTeamLimits, ...limits },
    }))
    this.watch = this.#newWatch()
    this.calls = this.#newCalls()
    this.packs = new SimulatedPacks((key) => this.#checkPack(key))
    this.nodes = Array.from({ length: plan.nodes }, (_, at) => this.#newNode(at))
  }

  note: Note = (text) => {
    if (!this.#isTraced) return
    this.trace.push(
      `${String(this.step).padStart(5)} ${String(this.time.elapsedMs).padStart(8)} ms  ${shortID(text())}`,
    )
  }

  report = (violation: Violation): void => {
    this.note(() => `VIOLATION ${violation.message}`)
    this.violations.push(violation)
  }

  /** Called once so much time has elapsed. */
  onElapsed(atMs: number, action: () => void): void {
    this.#later.push({ atMs, action })
  }

  passTime(ms: number): void {
    this.time.advance(ms)
    const isDue = ({ atMs }: { atMs: number }) => atMs <= this.time.elapsedMs
    for (const { action } of this.#later.filter(isDue)) action()
    this.#later = this.#later.filter((one) => !isDue(one))
  }

  /** Nothing goes between the two nodes. */
  areCutOff(one: SimulatedNode, other: SimulatedNode): boolean {
    return this.faultsAreOn && (one.isCutFromPeers || other.isCutFromPeers)
  }

  undrain(nodeName: string): void {
    void this.database.storesOf('operator').nodes.setStatus(nodeName, 'ready')
  }

  /** The machine that has the sandbox by its row. */
  ownerOf(sandboxID: string): SimulatedNode {
    const nodeID = this.watch.sandboxes.get(sandboxID)?.nodeID
    const owner = this.plan.isCluster && this.nodes.find(({ name }) => name === nodeID)
    return owner || this.nodes[this.ledger.entries.get(sandboxID)?.node ?? 0]!
  }

  /** Whether the row belongs to the node; without a cluster no row ever leaves the one that made it. */
  isOn(nodeName: string, { nodeID }: WatchedSandbox): boolean {
    return !this.plan.isCluster || nodeID === nodeName
  }

  /** What runs, stands still or is half-made of the sandbox on the machine that has it. */
  inWorld(sandboxID: string) {
    return this.ownerOf(sandboxID).world.sandboxes.get(sandboxID)
  }

  /** Teams and the one template that every sandbox begins with. */
  async prepare(): Promise<void> {
    const stores = this.database.storesOf(this.#ownerName(0))
    const now = this.nodes[0]!.wall.now()
    for (const team of this.teams) await stores.teams.insertTeam(team)
    const times = { createdAt: now, updatedAt: now }
    const template = { templateID: 'basetemplate', teamID: null, public: true, isSnapshot: false }
    const names = [{ alias: 'base', namespace: null }]
    await stores.templates.insertTemplate(
      { ...template, lastSpawnedAt: null, spawnCount: 0, ...times },
      names,
    )
    const buildID = '11111111-1111-4111-8111-111111111111'
    await stores.templates.insertBuild(
      {
        ...{ buildID, templateID: 'basetemplate', status: 'ready' },
        ...{
          cpuCount: 2,
          memoryMB: 512,
          diskMB: 1024,
          envdVersion: '0.6.13',
          rootFolder: 'root',
          layers: null,
        },
        ...{ envVars: {}, defaultUser: 'user', defaultWorkdir: '/home/user' },
        ...{ startCmd: this.plan.hasService ? 'serve' : null, readyCmd: null, serviceContext: null },
        ...{ reason: null, startRequest: null, snapshot: null, ...times, finishedAt: now },
      },
      ['default'],
    )
    // Every machine has its root.
    if (this.plan.isCluster) await stores.archive.markBuild(buildID, { at: now, needs: null })
  }

  #newCalls(): ParkedCalls {
    return new ParkedCalls(this.time, {
      faultOf: (part, method, process) => this.#faultOf(part, method, process),
      isStill: (process) => this.nodes.some((node) => node.process === process && node.isStill),
      hangMs: (part) => (part === 'agent' ? agentDeadlineMs : this.#faultRandom.pick(hangs)),
      absence: (method) => (method in this.#absentReads ? { value: this.#absentReads[method] } : undefined),
      holdsAnswer: () => this.random.chance(this.plan.holdsAnswers),
      lateBy: () => this.#lateRandom.pick(lateness),
      note: this.note,
    })
  }

  #faultOf(part: string, method: string, process: number): CallFault | undefined {
    const likely = this.plan.faults[part] ?? {}
    const drawn = (['fails', 'answer-lost', 'hangs'] as const).find((fault) =>
      this.#faultRandom.chance(likely[fault] ?? 0),
    )
    // By its contract it answers with true or false, and in time.
    if (!this.faultsAreOn || method === 'isHealthy') return undefined
    if (part === 'driver' && drawn === 'answer-lost' && !mayFailAfterwards.includes(method)) return undefined
    if (part === 'objects' && this.time.elapsedMs < this.objectsAreAwayUntilMs) return 'fails'
    if (part !== 'store') return drawn
    if (method === 'renew' && this.time.elapsedMs < this.leasesAreLostUntilMs) return 'fails'
    const isCutOff = this.nodes.some(
      (node) => node.process === process && this.time.elapsedMs < node.cutOffUntilMs,
    )
    if (isCutOff) return this.#faultRandom.chance(0.3) ? 'answer-lost' : 'fails'
    if (this.time.elapsedMs < this.storeIsAwayUntilMs) return 'fails'
    this.#failuresInARow = drawn && drawn !== 'hangs' ? this.#failuresInARow + 1 : 0
    return this.#failuresInARow > mostFailuresInARow ? undefined : drawn
  }

  #newNode(at: number): SimulatedNode {
    const { plan, time, calls, note, database } = this
    return new SimulatedNode({
      ...{ name: `node${at}`, time, calls, note, stores: database.storesOf(this.#ownerName(at)) },
      world: this.#newWorld(`node${at}`),
      packs: plan.isCluster ? this.packs : undefined,
      options: { snapshotMemory: plan.snapshotMemory, warmSandboxes: plan.warmSandboxes },
      handOverFrom: (node) => handOverFrom(this, node),
      onUp: (node) => this.#checkCopiesOf(node),
      newProcess: () => ++this.#processes,
    })
  }

  /** Under which a node owns rows. */
  #ownerName(at: number): string {
    return this.#hasOneOwner ? 'node' : `node${at}`
  }

  /** A machine whose snapshots are watched: none may go that somebody needs. */
  #newWorld(nodeName: string): FakeWorld {
    const world = newFakeWorld()
    world.prepared.add(rootFolder)
    const { watch, report, note } = this
    const isOwn = (row: WatchedSandbox) => this.isOn(nodeName, row)
    class WatchedSnapshots extends Map<
      string,
      FakeWorld['snapshots'] extends Map<string, infer S> ? S : never
    > {
      override delete(name: string): boolean {
        if (!this.has(name)) return false
        note(() => `the snapshot ${name} is deleted`)
        // The sandbox that it was a precaution for is there, and goes on.
        const isPrecaution = [...world.sandboxes.values()].some(
          ({ frozenSnapshot, running }) => frozenSnapshot === name && running,
        )
        const isRunning = (sandboxID: string) => world.sandboxes.get(sandboxID)?.running === true
        const needs = isPrecaution ? undefined : watch.whoNeeds(name, nodeName, isRunning, isOwn)
        if (needs)
          report(new Violation('snapshot needed', `${shortID(name)} was deleted while ${needs} needs it`))
        return super.delete(name)
      }
    }
    world.snapshots = new WatchedSnapshots()
    return world
  }

  #newWatch(): RowWatch {
    const { ledger, note, report } = this
    return new RowWatch({
      limits: new Map(this.teams.map(({ teamID, limits }) => [teamID, limits])),
      now: (sandboxID) => this.ownerOf(sandboxID).wall.latest(),
      wasKillAsked: (sandboxID) => ledger.killAsked.has(sandboxID),
      isPauseAsked: (sandboxID) =>
        ledger.isAsked(sandboxID, 'pause') || ledger.drained.has(this.ownerOf(sandboxID).name),
      isForgotten: (nodeID) => this.forgotten.has(nodeID),
      hasPack: (row) => this.packs.keeps(sandboxKey(row)),
      hasDied: (runID) => ledger.died.has(runID),
      onChange: (before, after) => this.#onChange(before, after),
      ...{ note, report },
    })
  }

  #onChange(before: WatchedSandbox | undefined, after: WatchedSandbox): void {
    const node = Number(after.metadata.node ?? 0)
    const entry = this.ledger.entry(after.teamID, after.sandboxID, node)
    if (!before) {
      const isItsCreate = ({ verb, number }: Ask) =>
        verb.startsWith('create') && String(number) === after.metadata.ask
      entry.madeBy = [...this.ledger.underway].find(isItsCreate)
    }
    if (after.state === 'paused' && before?.state !== 'paused') {
      entry.toldEnds = []
      // Memory that stands still in a sandbox is gone with its processes, also before the row says that it is paused.
      const isLost = after.snapshot?.frozen === true && this.ledger.died.has(after.startedRunID)
      entry.keepsMemory = after.snapshot?.memory === true && !isLost
    }
    if (after.state === 'resuming') {
      entry.resumesMemory = entry.keepsMemory ? entry.inMemory : undefined
      entry.keepsMemory = false
    }
    if (after.state === 'running' && before?.state === 'resuming') {
      entry.inMemory = this.inWorld(after.sandboxID)?.memory.get(writtenKey)
      this.#checkMovedMemory(after, entry)
    }
    if (after.state === 'killing' && before?.state !== 'killing') this.#checkToldEnds(after)
  }

  /** What no client asked to resume goes on as it was. */
  #checkMovedMemory({ sandboxID, startedRunID }: WatchedSandbox, entry: LedgerEntry): void {
    const { ledger } = this
    if (ledger.isAsked(sandboxID, 'resume', 'connect', 'wake') || ledger.died.has(startedRunID)) return
    if (entry.resumesMemory === undefined || entry.inMemory === entry.resumesMemory) return
    this.report(
      new Violation(
        'content kept',
        `${shortID(sandboxID)} goes on with ${entry.inMemory} in its memory, not ${entry.resumesMemory}`,
      ),
    )
  }

  /** At no time two of them run, whatever the rows say. To be called in each step. */
  checkCopies(): void {
    if (!this.plan.isCluster) return
    const seen = new Map<string, string>()
    for (const { name, world, oldCopies } of this.nodes) {
      for (const [sandboxID, { running, frozen }] of world.sandboxes) {
        if (!running || frozen || oldCopies.has(sandboxID)) continue
        const other = seen.get(sandboxID)
        if (other)
          this.report(new Violation('one copy', `${shortID(sandboxID)} runs on ${other}, and on ${name} too`))
        seen.set(sandboxID, name)
      }
    }
  }

  /** A node that comes back stops what others have taken over before it answers anybody, unless that failed. */
  #checkCopiesOf({ name, world, oldCopies, mayFailToStart }: SimulatedNode): void {
    for (const sandboxID of oldCopies) if (!world.sandboxes.has(sandboxID)) oldCopies.delete(sandboxID)
    const stopFails = Object.values(this.plan.faults.driver ?? {}).some((likely) => likely > 0)
    if (!this.plan.isCluster || (mayFailToStart && stopFails)) return
    for (const sandboxID of world.sandboxes.keys()) {
      const row = this.watch.sandboxes.get(sandboxID)
      if (!row || row.state === 'ended' || row.nodeID === name || world.unreadable.has(sandboxID)) continue
      this.report(
        new Violation('one copy', `${name} is up and has ${shortID(sandboxID)}, which is ${row.nodeID}'s`),
      )
    }
  }

  #checkPack(key: string): void {
    this.note(() => `the pack ${key} is removed`)
    for (const row of this.watch.sandboxes.values()) {
      if (row.state !== 'paused' || !row.isArchived || sandboxKey(row) !== key) continue
      this.report(
        new Violation('pack needed', `the pack of ${shortID(row.sandboxID)}, which is paused, is removed`),
      )
    }
  }

  /** Where only the timeout can have ended it: not before the end that a client was told last. */
  #checkToldEnds({ sandboxID, endBegan }: WatchedSandbox): void {
    const { ledger } = this
    const entry = ledger.entries.get(sandboxID)!
    const { from, now, runID } = endBegan!
    if (from !== 'running' || ledger.killAsked.has(sandboxID) || ledger.died.has(runID)) return
    if (ledger.isAsked(sandboxID, 'set-timeout')) return
    for (const { endAt, askedAtStep } of entry.toldEnds) {
      if (now >= endAt || entry.shortenedAtStep >= askedAtStep) continue
      this.report(
        new Violation(
          'lifetime',
          `${shortID(sandboxID)} ends ${endAt - now} ms before the end a client was told`,
        ),
      )
    }
  }
}
