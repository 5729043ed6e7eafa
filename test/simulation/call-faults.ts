/** Decides by the plan whether and how each call goes wrong, and which answers are held up. */
import type { CallFault, CallPolicy } from './parked-calls.ts'
import type { Plan } from './plan.ts'
import type { Random } from './random.ts'
import type { SimulatedNode } from './simulated-node.ts'
import type { SimulatedTime } from './simulated-time.ts'

/** Maximum number of errors of the store in a row, because its errors are temporary. */
const maxFailuresInARow = 2
const hangs = [5000, 20_000, 90_000]
/** How long a statement is on its way to the database once its process died, in milliseconds; undefined: it is lost. */
const lateness = [undefined, undefined, 0, 1000, 20_000]
/** Verbs of the driver that may have taken effect although they reject; the others promise that they have not. */
const mayFailAfterwards = ['stop', 'thaw', 'removeSnapshot', 'limitEgress']
/** Calls that look around before somebody acts: what they answer may be old by then. */
const looks = /^(list|names$|recover$|limitEgress$)/
/** As the agent's client gives up. */
const agentDeadlineMs = 30_000

export type CallFaultParts = {
  plan: Plan
  time: SimulatedTime
  /** Of the order of things. */
  random: Random
  faultRandom: Random
  lateRandom: Random
  nodes: () => readonly SimulatedNode[]
}

export class CallFaults {
  /** False once the history is over: what is left is to come to rest without further faults. */
  areOn = true
  /** In elapsed milliseconds: until then nobody reaches the store. */
  storeIsAwayUntilMs = 0
  /** The same, and some of the calls take effect though their answers are lost. */
  answersAreLostUntilMs = 0
  objectsAreAwayUntilMs = 0
  leasesAreLostUntilMs = 0
  readonly #parts: CallFaultParts
  #failuresInARow = 0

  constructor(parts: CallFaultParts) {
    this.#parts = parts
  }

  get policy(): Pick<CallPolicy, 'faultOf' | 'isSuspended' | 'hangMs' | 'holdsAnswer' | 'lateBy'> {
    const { faultRandom, lateRandom, nodes } = this.#parts
    return {
      faultOf: (part, method, process) => this.#faultOf(part, method, process),
      isSuspended: (process) => nodes().some((node) => node.process === process && node.isSuspended),
      hangMs: (part) => (part === 'agent' ? agentDeadlineMs : faultRandom.pick(hangs)),
      holdsAnswer: (method, process) => this.#holdsAnswer(method, process),
      lateBy: () => lateRandom.pick(lateness),
    }
  }

  #holdsAnswer(method: string, process: number): ReturnType<CallPolicy['holdsAnswer']> {
    const { plan, random, nodes } = this.#parts
    // Before it is up, nobody could go on meanwhile.
    const isUp = () => nodes().some((node) => node.process === process && node.isUp)
    const isLook =
      plan.holdsReads > 0 && (plan.delayedMethods?.includes(method) ?? looks.test(method)) && isUp()
    if (isLook && random.chance(plan.holdsReads) && this.areOn) return 'until it is old'
    return random.chance(plan.holdsAnswers) ? 'a moment' : undefined
  }

  #faultOf(part: string, method: string, process: number): CallFault | undefined {
    const { plan, time, faultRandom, nodes } = this.#parts
    const likely = plan.faults[method] ?? plan.faults[part] ?? {}
    const drawn = (['fails', 'answer-lost', 'hangs', 'lands-late'] as const).find((fault) =>
      faultRandom.chance(likely[fault] ?? 0),
    )
    // By their contract these answer, and in time.
    if (!this.areOn || method === 'isHealthy' || method === 'findOtherNetworks') return undefined
    if (part === 'driver' && drawn === 'answer-lost' && !mayFailAfterwards.includes(method)) return undefined
    if (part === 'objects' && time.elapsedMs < this.objectsAreAwayUntilMs) return 'fails'
    if (part !== 'store') return drawn
    if (method === 'renew' && time.elapsedMs < this.leasesAreLostUntilMs) return 'fails'
    const isCutOff = nodes().some((node) => node.process === process && time.elapsedMs < node.cutOffUntilMs)
    if (isCutOff) return faultRandom.chance(0.3) ? 'answer-lost' : 'fails'
    if (time.elapsedMs < this.storeIsAwayUntilMs) return 'fails'
    if (time.elapsedMs < this.answersAreLostUntilMs) return faultRandom.chance(0.5) ? 'answer-lost' : 'fails'
    this.#failuresInARow = drawn && drawn !== 'hangs' ? this.#failuresInARow + 1 : 0
    return this.#failuresInARow > maxFailuresInARow ? undefined : drawn
  }
}
