/** The state of one history: machines, clients, what was told, and the trace. It knows no order of events. */
import { sandboxKey } from '../../src/core/object-storage/keys.ts'
import { defaultTeamLimits, type Team } from '../../src/core/team/team.ts'
import type { TemplateBuild } from '../../src/core/template/template.ts'
import { baseBuild } from './base-build.ts'
import { BuildWatch } from './build-watch.ts'
import { CallFaults } from './call-faults.ts'
import type { RowChange, SimulatedDatabase } from './database.ts'
import { startDueSoon } from './due-soon.ts'
import { mayMigrate, noteCall, noteChange, wasExitReported } from './entry-changes.ts'
import { writeEarly } from './expected-content.ts'
import { askWhyUnfitFrom, handOverFrom } from './hops.ts'
import { type Ask, Ledger } from './ledger.ts'
import { type Note, ParkedCalls, shortID } from './parked-calls.ts'
import type { Plan } from './plan.ts'
import { Random } from './random.ts'
import { RateWatch } from './rate-watch.ts'
import { RowWatch, type WatchedSandbox } from './row-watch.ts'
import { SimulatedDisks } from './simulated-disks.ts'
import { SimulatedNode } from './simulated-node.ts'
import { SimulatedPacks } from './simulated-packs.ts'
import { SimulatedTime } from './simulated-time.ts'
import { SimulatedReceivers } from './simulated-webhooks.ts'
import { checkCopiesOf } from './step-checks.ts'
import { Violation } from './violation.ts'
import { VolumeWatch } from './volume-watch.ts'
import { newWatchedWorld } from './watched-world.ts'
import { WebhookWatch } from './webhook-watch.ts'

export type HistoryOptions = {
  trace?: boolean
  /** A fault put back in by hand: what these methods of the driver answer when they cannot read. */
  absentReads?: Record<string, unknown>
  /** A fault put back in by hand: all nodes take all rows for their own. */
  oneOwner?: boolean
  /** A fault put back in by hand: the driver takes egress rules that are written down for enforced. */
  trustsRecord?: boolean
}

/** How long it may take until a create that failed is taken back: a round of the reconciler. */
const returnedMs = 70_000

export class Simulation {
  readonly plan: Plan
  readonly database: SimulatedDatabase
  readonly random: Random
  readonly time = new SimulatedTime()
  readonly ledger = new Ledger()
  readonly trace: string[] = []
  readonly violations: Violation[] = []
  readonly faults: CallFaults
  readonly calls: ParkedCalls
  readonly nodes: SimulatedNode[]
  /** The object store of the settings of most nodes, and what a node finds under another prefix. */
  readonly #stores: { usual: SimulatedPacks; mistaken: SimulatedPacks }
  readonly rates: RateWatch
  readonly watch: RowWatch
  readonly volumes: VolumeWatch
  readonly builds: BuildWatch
  readonly webhooks: WebhookWatch
  readonly receivers: SimulatedReceivers
  readonly teams: Team[]
  step = 0
  /** The number of the next request that no plan has. */
  nextRush = 1000
  /** When a node did not reach the store, in elapsed milliseconds. */
  readonly #outages: { fromMs: number; untilMs: number }[] = []
  /** The nodes that the operator forgets at this moment. */
  readonly forgotten = new Set<string>()
  /** What is to happen when this step is done. */
  readonly afterStep: (() => void)[] = []
  /** The steps since which the disks of the nodes, by name, are full. */
  readonly fullSince = new Map<string, number>()
  readonly options: HistoryOptions
  #processes = 0
  #base: TemplateBuild | undefined
  #later: { atMs: number; action: () => void }[] = []

  constructor(database: SimulatedDatabase, plan: Plan, options: HistoryOptions) {
    this.options = options
    this.plan = plan
    this.database = database
    const random = new Random(plan.schedule ^ 0x5eed)
    this.random = random.branch()
    this.faults = new CallFaults({
      plan,
      time: this.time,
      random: this.random,
      nodes: () => this.nodes,
      faultRandom: random.branch(),
      lateRandom: random.branch(),
    })
    this.teams = plan.teams.map(({ slug, limits }) => ({
      teamID: `team-${slug}`,
      slug,
      name: slug,
      createdAt: 0,
      olderClients: false,
      limits: { ...defaultTeamLimits, ...limits },
    }))
    this.rates = new RateWatch(this.time, (violation) => this.report(violation))
    this.watch = this.#newWatch()
    this.volumes = new VolumeWatch(this)
    this.builds = new BuildWatch(this)
    this.webhooks = new WebhookWatch(this)
    this.receivers = new SimulatedReceivers({
      watch: this.webhooks,
      answers: plan.receiverAnswers,
      random: random.branch(),
      areFaultsOn: () => this.faults.areOn,
    })
    this.calls = this.#newCalls()
    const newStore = (location: string) => {
      const packs: SimulatedPacks = new SimulatedPacks(location, (key) => {
        if (this.packs === packs) this.#checkPack(key)
      })
      return packs
    }
    this.#stores = { usual: newStore('s3://bucket/prefix'), mistaken: newStore('s3://bucket/mistake') }
    this.nodes = Array.from({ length: plan.nodes }, (_, at) => this.#newNode(at))
  }

  /** The object store of the cluster: that of the mistaken node if its settings were the first that the database heard of. */
  get packs(): SimulatedPacks {
    const { usual, mistaken } = this.#stores
    return mistaken.isMarked ? mistaken : usual
  }

  note: Note = (text) => {
    if (!this.options.trace) return
    this.trace.push(
      `${String(this.step).padStart(5)} ${String(this.time.elapsedMs).padStart(8)} ms  ${shortID(text())}`,
    )
  }

  report = (violation: Violation): void => {
    this.note(() => `VIOLATION ${violation.message}`)
    this.violations.push(violation)
  }

  /** A row has changed. */
  see(change: RowChange): void {
    this.watch.see(change)
    this.volumes.see(change)
    this.builds.see(change)
    if (this.plan.hasWebhooks) this.webhooks.see(change)
  }

  /** Called once so much time has elapsed. */
  onElapsed(atMs: number, action: () => void): void {
    this.#later.push({ atMs, action })
  }

  noteOutage(forMs: number): void {
    const { elapsedMs } = this.time
    this.#outages.push({ fromMs: elapsedMs, untilMs: elapsedMs + forMs })
  }

  /** A node did not reach the store while this request was carried out, or soon after, when it may have been taken back. */
  metOutage({ askedMs, answeredMs = this.time.elapsedMs }: Ask): boolean {
    return this.#outages.some(
      ({ fromMs, untilMs }) => fromMs <= answeredMs + returnedMs && untilMs >= askedMs - returnedMs,
    )
  }

  /** When the next of those is to be called, in elapsed milliseconds. */
  nextLaterAt(): number {
    return Math.min(...this.#later.map(({ atMs }) => atMs), Number.POSITIVE_INFINITY)
  }

  passTime(ms: number): void {
    this.time.advance(ms)
    const isDue = ({ atMs }: { atMs: number }) => atMs <= this.time.elapsedMs
    for (const { action } of this.#later.filter(isDue)) action()
    this.#later = this.#later.filter((one) => !isDue(one))
  }

  /** Nothing goes between the two nodes. */
  areCutOff(one: SimulatedNode, other: SimulatedNode): boolean {
    return this.faults.areOn && (one.isCutFromPeers || other.isCutFromPeers)
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

  /** The sandbox on the machine that has it: running, frozen or half-made. */
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
    this.#base = baseBuild(this.plan, now)
    await stores.templates.insertBuild(this.#base, ['default'])
    if (this.plan.dueSoon) await startDueSoon(this, this.plan.dueSoon)
    // Every machine has its root.
    if (this.plan.isCluster) await stores.remoteBytes.markBuild(this.#base.buildID, { at: now, needs: null })
  }

  #newCalls(): ParkedCalls {
    const absent = this.options.absentReads ?? {}
    return new ParkedCalls(this.time, {
      ...this.faults.policy,
      absence: (method) => (method in absent ? { value: absent[method] } : undefined),
      onCall: (process, name, method, args) => {
        this.rates.seeCall(process)
        noteCall(this, name, method, args)
      },
      note: this.note,
    })
  }

  #newNode(at: number): SimulatedNode {
    const { plan, time, calls, note, rates, database, watch, report, ledger } = this
    const name = `node${at}`
    const isOwn = (row: WatchedSandbox) => this.isOn(name, row)
    return new SimulatedNode({
      name,
      time,
      calls,
      note,
      rates,
      plan,
      stores: database.storesOf(this.#ownerName(at)),
      world: newWatchedWorld({
        nodeName: name,
        watch,
        isOwn,
        report,
        note,
        routes: () => this.nodes?.[at]?.core?.routes,
        gateClientOf: (address) => this.nodes?.[at]?.gate?.clients.get(address)?.sandboxID,
      }),
      disks: new SimulatedDisks((volumeID) => this.volumes.checkRemoval(volumeID)),
      packs: plan.isCluster ? this.#stores[at === plan.otherPrefixNode ? 'mistaken' : 'usual'] : undefined,
      webhooks: plan.hasWebhooks ? { watch: this.webhooks, receivers: this.receivers } : undefined,
      trustsRecord: this.options.trustsRecord === true,
      handOverFrom: (node) => handOverFrom(this, node),
      askWhyUnfitFrom: (node) => askWhyUnfitFrom(this, node),
      teamOf: (sandboxID) => watch.sandboxes.get(sandboxID)?.teamID,
      freeBytes: () => (this.fullSince.has(name) ? 0 : 1e12),
      onUp: (node) => checkCopiesOf(this, node),
      onStarted: (sandboxID) => writeEarly(this, sandboxID),
      onExitReported: (runID, process) => ledger.reportedExits.set(runID, { process, step: this.step }),
      base: () => this.#base!,
      newProcess: () => ++this.#processes,
    })
  }

  /** Under which a node owns rows. */
  #ownerName(at: number): string {
    return this.options.oneOwner ? 'node' : `node${at}`
  }

  #newWatch(): RowWatch {
    const { ledger, note, report } = this
    return new RowWatch({
      limits: new Map(this.teams.map(({ teamID, limits }) => [teamID, limits])),
      now: (sandboxID) => this.ownerOf(sandboxID).wall.latest(),
      wasKillAsked: (sandboxID) => ledger.killAsked.has(sandboxID),
      isUntold: ({ sandboxID, teamID }) => {
        const { madeBy } = ledger.entries.get(sandboxID) ?? {}
        if (!madeBy) return !ledger.known.get(teamID)?.includes(sandboxID)
        const isFailed = ledger.failedCreates.has(madeBy.number) || ledger.unknownCreates.has(madeBy.number)
        return !madeBy.wasHeard || isFailed
      },
      isPauseAsked: (sandboxID) =>
        ledger.isAsked(sandboxID, 'pause') ||
        ledger.drained.has(this.ownerOf(sandboxID).name) ||
        this.ownerOf(sandboxID).memory.mayHaveTouched(sandboxID),
      isAboveShare: (sandboxID) => this.ownerOf(sandboxID).memory.mayTouch(sandboxID),
      isForgotten: (nodeID) => this.forgotten.has(nodeID),
      hasPack: (row) => this.packs.hasPack(sandboxKey(row)),
      hasDied: (runID) => ledger.died.has(runID),
      onChange: (before, after) => noteChange(this, before, after),
      wasExitReported: (runID, sandboxID) => wasExitReported(this, runID, sandboxID),
      isRecovered: (sandboxID) => ledger.isAsked(sandboxID, 'recover a snapshot'),
      isDiscarded: (name) => ledger.isDiscarding(name),
      mayMigrate: (row) => mayMigrate(this, row),
      note,
      report,
    })
  }

  #checkPack(key: string): void {
    this.note(() => `the pack ${key} is removed`)
    for (const row of this.watch.sandboxes.values()) {
      const { sandboxID, state, isStored, snapshot } = row
      const arrivesFrom = ['killing', 'ended'].includes(state) ? undefined : snapshot?.arrivesFrom
      const isNeeded = state === 'paused' && isStored && sandboxKey(row) === key
      const isRead = arrivesFrom && sandboxKey({ sandboxID, runID: arrivesFrom.runID }) === key
      if (!isNeeded && !isRead) continue
      const how = isRead ? `${state} and still reads it` : 'paused'
      this.report(
        new Violation('pack needed', `the pack of ${shortID(sandboxID)}, which is ${how}, is removed`),
      )
    }
    this.builds.checkRemoval(key)
  }
}
