/** Runs one history: mixes requests, mishaps and calls by its seed, lets everything come to rest, and checks. */
import { replaceRandomSource } from '../../src/lib/ids.ts'
import { makeRequest } from './client-requests.ts'
import type { SimulatedDatabase } from './database.ts'
import { checkAtRest, hasOverdue, hasUnneeded, hasUnowned, overdueMs } from './final-checks.ts'
import { checkClose, checkContent } from './last-requests.ts'
import { letHappen } from './mishaps.ts'
import type { Action, Plan } from './plan.ts'
import { Random } from './random.ts'
import { type HistoryOptions, Simulation } from './simulation.ts'
import { checkEachStep } from './step-checks.ts'
import { countTurnsWaitedFor } from './turns-waited-for.ts'
import { Violation } from './violation.ts'

const maxSteps = 20_000
const restMs = 130_000
const closeMs = 5000
/** As long as a round takes at rest. */
const roundMs = 5000
/** Maximum time of a sandbox without a row: two rounds of the reconciler more than its grace. */
const unownedGraceMs = 420_000
/** Longer than the lease of the process that sends to webhooks. */
const webhookGraceMs = 100_000
const lookAgainMs = 10_000

export type HistoryResult = { violations: Violation[]; trace: string[]; steps: number }

export async function runHistory(
  database: SimulatedDatabase,
  plan: Plan,
  options: HistoryOptions = {},
): Promise<HistoryResult> {
  const ids = new Random(plan.seed ^ 0x1d5)
  const restore = replaceRandomSource((count) => ids.bytes(count))
  const simulation = new Simulation(database, plan, options)
  const onRejection = (error: unknown) =>
    simulation.report(
      new Violation('error in words', `nobody caught ${error instanceof Error ? error.stack : error}`),
    )
  process.on('unhandledRejection', onRejection)
  try {
    const { time } = simulation
    database.reset(
      (change) => simulation.see(change),
      () => time.now(),
    )
    await simulation.prepare()
    for (const node of simulation.nodes) node.boot()
    await new Scheduler(simulation).run()
  } finally {
    process.off('unhandledRejection', onRejection)
    restore()
  }
  const { violations, trace, step } = simulation
  return { violations, trace, steps: step }
}

class Scheduler {
  readonly #simulation: Simulation
  readonly #waiting: Action[]
  #requestsMade = 0

  constructor(simulation: Simulation) {
    this.#simulation = simulation
    this.#waiting = [...simulation.plan.actions]
  }

  async run(): Promise<void> {
    const { violations } = this.#simulation
    await this.#drain()
    while (violations.length === 0 && !this.#isOver()) await this.#step()
    if (violations.length > 0) return
    this.#simulation.note(() => 'the history is over; everything comes to rest')
    this.#simulation.faults.areOn = false
    this.#simulation.fullSince.clear()
    for (const node of this.#simulation.nodes) {
      node.suspendedUntilMs = 0
      node.memory.beEnough()
      node.isAtRest = true
      this.#simulation.undrain(node.name)
    }
    this.#simulation.calls.endHangs()
    this.#simulation.rates.isAtRest = true
    const stages = [
      () => this.#rest(),
      async () => hasUnowned(this.#simulation) && this.#rest(unownedGraceMs),
      async () => hasOverdue(this.#simulation) && this.#rest(overdueMs),
      async () => hasUnneeded(this.#simulation) && this.#rest(),
      () => this.#restForWebhooks(),
      () => checkAtRest(this.#simulation),
      () => checkContent(this.#simulation, () => this.#rest(1000)),
      // What the last take-overs left on the disks of the nodes before.
      async () => this.#simulation.plan.isCluster && this.#goRound(),
      () => this.#restForWebhooks(),
      () => checkAtRest(this.#simulation),
      () => checkClose(this.#simulation, () => this.#rest(closeMs)),
    ]
    // Where there are many sandboxes, only their ends are looked at.
    const max = this.#simulation.plan.dueSoon ? 1 : stages.length
    for (const stage of stages.slice(0, max)) if (violations.length === 0) await stage()
  }

  /** Nobody has anything left to ask or to wait for. */
  #isOver(): boolean {
    const { ledger, step, violations } = this.#simulation
    if (step > maxSteps) violations.push(new Violation('rest', `no end after ${step} steps`))
    return this.#waiting.length === 0 && ledger.underway.size === 0
  }

  async #step(): Promise<void> {
    const { random, plan, calls } = this.#simulation
    this.#simulation.step++
    const [ready, parked] = [calls.ready(), calls.parked()]
    const startable = this.#startable()
    const isIdle = ready.length + startable.length === 0
    const choice = random.weighted({
      call: ready.length > 0 ? 10 : 0,
      action: startable.length > 0 ? 2 : 0,
      time: plan.haste + (isIdle ? 10 : 0),
      parked: parked.length === 0 ? 0 : isIdle ? 5 : 0.2,
    })
    if (choice === 'call') calls.letGo(random.chance(plan.inOrder) ? ready[0]! : random.pick(ready))
    else if (choice === 'parked') calls.letGo(random.pick(parked))
    else if (choice === 'action') this.#start(startable)
    else await this.#advance(this.#someTime())
    await this.#drain()
    checkEachStep(this.#simulation)
  }

  /** The next request of each client that waits for nothing, and what happens to machines at any time. */
  #startable(): Action[] {
    const busy = new Set([...this.#simulation.ledger.underway].map(({ client }) => client))
    const { nodes, plan } = this.#simulation
    const isFree = plan.isCluster ? nodes.some(({ isUp }) => isUp) : nodes.every(({ isUp }) => isUp)
    return this.#waiting.filter((action) => {
      if ((action.atMs ?? 0) > this.#simulation.time.elapsedMs) return false
      if ('mishap' in action) return action.mishap.after <= this.#requestsMade
      const { client } = action.request
      if (busy.has(client)) return false
      busy.add(client)
      return isFree
    })
  }

  #start(startable: Action[]) {
    const action = this.#simulation.random.pick(startable)
    this.#waiting.splice(this.#waiting.indexOf(action), 1)
    if ('mishap' in action) return letHappen(this.#simulation, action.mishap)
    this.#requestsMade++
    makeRequest(this.#simulation, action.request, action.number)
  }

  /** Mostly to the moment when something is due. */
  #someTime(): number {
    const { random, time, nodes, calls, plan } = this.#simulation
    if (!plan.keepsTime && random.chance(0.3)) return random.pick([1, 50, 1000, 10_000, 70_000])
    const next = Math.min(
      ...nodes.map(
        (node) => (node.isSuspended ? undefined : node.clock?.nextAt()) ?? Number.POSITIVE_INFINITY,
      ),
      calls.nextAt() ?? Number.POSITIVE_INFINITY,
      ...this.#waiting.flatMap(({ atMs = 0 }) => (atMs > time.elapsedMs ? [atMs] : [])),
    )
    return Number.isFinite(next) ? Math.max(0, next - time.elapsedMs) : 1000
  }

  async #advance(ms: number): Promise<void> {
    this.#simulation.passTime(ms)
    for (const node of this.#simulation.nodes) {
      while (!node.isSuspended && node.clock?.fireDue()) await this.#drain()
    }
  }

  /** All calls go on, and time passes until the reconcilers have been round twice. */
  async #rest(forMs = restMs): Promise<void> {
    const { calls, time, nodes, random, violations } = this.#simulation
    const until = time.elapsedMs + forMs
    while (violations.length === 0 && (time.elapsedMs < until || calls.size > 0)) {
      if (++this.#simulation.step > maxSteps) {
        return this.#simulation.report(new Violation('rest', `no rest after ${maxSteps} steps`))
      }
      const ready = calls.ready()
      checkEachStep(this.#simulation)
      if (ready.length > 0) calls.letGo(random.pick(ready))
      else {
        const next = Math.min(
          ...nodes.map(({ clock }) => clock?.nextAt() ?? Number.POSITIVE_INFINITY),
          calls.nextAt() ?? Number.POSITIVE_INFINITY,
          time.elapsedMs < until ? until : Number.POSITIVE_INFINITY,
          this.#simulation.nextLaterAt(),
        )
        await this.#advance(Math.max(0, next - time.elapsedMs))
      }
      await this.#drain()
    }
  }

  /** Two rounds of all reconcilers, without the time between them. */
  async #goRound(): Promise<void> {
    for (let rounds = 2; rounds > 0; rounds--) {
      for (const node of this.#simulation.nodes) if (!node.isGone) node.beginRound()
      await this.#rest(roundMs)
    }
  }

  /** Until what waits for its next try has had it, and a lease that is held by nobody any more is over. */
  async #restForWebhooks(): Promise<void> {
    const { webhooks, nodes, violations } = this.#simulation
    const now = Math.min(...nodes.map(({ wall }) => wall.now()))
    let leftMs = Math.max(0, (webhooks.waitsUntil() ?? now) - now) + webhookGraceMs
    while (leftMs > 0 && violations.length === 0 && webhooks.waitsUntil() !== undefined) {
      await this.#rest(lookAgainMs)
      leftMs -= lookAgainMs
    }
  }

  /** Until every promise that could go on has. */
  async #drain(): Promise<void> {
    do await new Promise((resolve) => setImmediate(resolve))
    while (countTurnsWaitedFor() > 0)
  }
}
