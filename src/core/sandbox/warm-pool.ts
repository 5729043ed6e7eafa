/**
 * The warm pool: sandboxes that were booted before anybody asked, never used, without a row or an owner. A create of
 * their template takes one with its id and saves the wait for its boot. The pool yields to whoever waits: it boots only
 * what the machine can carry beside them, and gives sandboxes up when a start is short of memory, CPU or disk. A crash
 * leaves them unowned, and the reconciler removes them.
 */
import type { Clock } from '../../lib/clock.ts'
import { newSandboxID, newUUID } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { canFreeze, type Driver, type DriverHandle } from '../driver.ts'
import type { TemplateBuild } from '../template/template.ts'
import type { Admission, MachineCapacity } from './admission.ts'
import { Demand } from './demand.ts'
import type { SandboxLauncher } from './launcher.ts'

export type WarmPoolSettings = {
  /** So many sandboxes of a template in use are kept at least; 0: there is no pool. */
  least: number
  /** All sandboxes of the pool together may be promised so much of the memory of the machine. */
  memoryPercent: number
}

export type WarmPoolParts = {
  driver: Driver
  launcher: Pick<SandboxLauncher, 'boot'>
  admission: Pick<Admission, 'tryEnter' | 'isShort'>
  machine: Pick<MachineCapacity, 'memoryMB'>
  settings: WarmPoolSettings
  clock: Clock
  log: Log
}

export type WarmSandbox = {
  sandboxID: string
  runID: string
  handle: DriverHandle
  buildID: string
  /** Once its processes are made to stand still; resolves when they do, or when that failed. */
  freeze?: Promise<void>
  /** Keeps it from being frozen, unless it is already. */
  cancelFreeze: () => void
}

/** The sandboxes of one build. */
type Kind = {
  build: TemplateBuild
  demand: Demand
  uses: number
  /** When the last create came. Infinite: it is kept whether it is used or not. */
  usedAt: number
  ready: WarmSandbox[]
  boots: Set<Promise<void>>
  bootMs: number
  /** The last boot failed; the next create tries again. */
  failed: boolean
  abort: AbortController
}

/** A sandbox that was just handed out has the CPUs for so long. */
const fillAfterMs = 250
/** After so long the pool looks again whether the machine can carry another boot. */
const lookAgainMs = 500
const tidyEveryMs = 60_000
/** A template that nobody used for so long is let go. */
const inUseMs = 60 * 60_000
/** What an agent or a service does after its start is done by then. */
const freezeAfterMs = 2000
/** As long as nothing was measured. */
const assumedBootMs = 500

export class WarmPool {
  readonly #parts: WarmPoolParts
  readonly #budgetMB: number
  /** By build, in the order of their last use. */
  readonly #kinds = new Map<string, Kind>()
  /** Everything that must not be taken for unowned: ready, being made, or handed out and not yet in a row. */
  readonly #held = new Set<string>()
  #isRefilling = false
  #next: { atMs: number; cancel: () => void } | undefined
  #stopWatching: (() => void) | undefined
  #closed = false

  constructor(parts: WarmPoolParts) {
    this.#parts = parts
    this.#budgetMB = parts.machine.memoryMB * (parts.settings.memoryPercent / 100)
  }

  /** A sandbox of this build, still held; call `release` once it has a row. It may have died, and may stand still. */
  take(build: TemplateBuild): WarmSandbox | undefined {
    const kind = this.#use(build)
    if (!kind) return undefined
    const now = this.#parts.clock.now()
    kind.uses++
    kind.usedAt = Math.max(kind.usedAt, now)
    kind.demand.record(now)
    kind.failed = false
    this.#refillIn(fillAfterMs)
    const warm = kind.ready.shift()
    warm?.cancelFreeze()
    return warm
  }

  /** It has a row now, which owns it. */
  release(warm: WarmSandbox): void {
    this.#held.delete(warm.sandboxID)
  }

  /** It was not needed after all, and nothing was done to it. */
  putBack(warm: WarmSandbox): void {
    const kind = this.#kinds.get(warm.buildID)
    if (kind && !this.#closed) kind.ready.push(warm)
    else void this.#discard(warm)
  }

  holds(sandboxID: string): boolean {
    return this.#held.has(sandboxID)
  }

  /** Sandboxes of this build are kept ready from now on, whether it is used or not. */
  keep(build: TemplateBuild): void {
    this.#expect(build, Number.POSITIVE_INFINITY)
  }

  /** A template has a new build. If the pool had sandboxes of the template, it now keeps some of the new build. */
  async replace(build: TemplateBuild): Promise<void> {
    if (await this.drop(build.templateID)) this.#expect(build, this.#parts.clock.now())
  }

  /** What those that are ready were promised. */
  sum(): { cpuCount: number; memoryMB: number } {
    const total = (key: 'cpuCount' | 'memoryMB') =>
      this.#all().reduce((sum, { build, ready }) => sum + build[key] * ready.length, 0)
    return { cpuCount: total('cpuCount'), memoryMB: total('memoryMB') }
  }

  /** Takes one down in favour of somebody who needs what it takes. False: there is none. */
  async giveUp(): Promise<boolean> {
    const victim = this.#all().find(({ ready }) => ready.length > 0)
    if (victim) await this.#discard(victim.ready.pop()!)
    return victim !== undefined
  }

  /** Takes down everything of a template. True: it was in use. */
  async drop(templateID: string): Promise<boolean> {
    const kinds = this.#all().filter(({ build }) => build.templateID === templateID)
    await Promise.all(kinds.map((kind) => this.#remove(kind)))
    return kinds.length > 0
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#next?.cancel()
    this.#stopWatching?.()
    await Promise.all(this.#all().map((kind) => this.#remove(kind)))
  }

  /** The one that was used least lately comes first. */
  #all(): Kind[] {
    return [...this.#kinds.values()]
  }

  #use(build: TemplateBuild): Kind | undefined {
    if (this.#closed || this.#parts.settings.least === 0 || build.memoryMB > this.#budgetMB) return undefined
    const kind = this.#kinds.get(build.buildID) ?? newKind(build)
    this.#kinds.delete(build.buildID)
    this.#kinds.set(build.buildID, kind)
    return kind
  }

  #expect(build: TemplateBuild, usedAt: number): void {
    const kind = this.#use(build)
    if (!kind) return
    kind.uses = this.#parts.settings.least
    kind.usedAt = usedAt
    this.#refillIn(fillAfterMs)
  }

  /** Of several calls the soonest counts. */
  #refillIn(ms: number): void {
    const { clock } = this.#parts
    const atMs = clock.now() + ms
    if (this.#closed || (this.#next && this.#next.atMs <= atMs)) return
    this.#next?.cancel()
    const cancel = clock.after(ms, () => {
      this.#next = undefined
      void this.#refill()
    })
    this.#next = { atMs, cancel }
  }

  async #refill(): Promise<void> {
    if (this.#isRefilling || this.#closed) return
    this.#isRefilling = true
    try {
      await this.#tidy()
      await this.#bootMissing()
    } catch (error) {
      this.#parts.log.error({ err: error }, 'The warm pool could not be refilled; it tries again later.')
    } finally {
      this.#isRefilling = false
      if (this.#kinds.size > 0) this.#refillIn(tidyEveryMs)
    }
  }

  async #bootMissing(): Promise<void> {
    for (let kind = this.#nextToFill(); kind; kind = this.#nextToFill()) {
      const leave = await this.#parts.admission.tryEnter(kind.build)
      if (!leave) return this.#refillIn(lookAgainMs)
      const boot = this.#boot(kind).finally(() => {
        leave()
        kind.boots.delete(boot)
        this.#refillIn(0)
      })
      kind.boots.add(boot)
    }
  }

  /** First what each template has at least, then what its busiest moment took; the one used last before the others. */
  #nextToFill(): Kind | undefined {
    if (this.#closed) return undefined
    const short = this.#all()
      .reverse()
      .filter((kind) => !kind.failed && countOf(kind) < this.#wanted(kind) && this.#fits(kind))
    return short.find((kind) => countOf(kind) < this.#parts.settings.least) ?? short[0]
  }

  #wanted({ demand, uses, usedAt, bootMs }: Kind): number {
    const { settings, clock } = this.#parts
    const now = clock.now()
    const least = now - usedAt < inUseMs ? Math.min(settings.least, uses) : 0
    // What is missing is there again after about twice the time of a boot.
    return Math.max(least, demand.peak(now, 2 * bootMs))
  }

  #fits({ build }: Kind): boolean {
    const used = this.#all().reduce((sum, kind) => sum + countOf(kind) * kind.build.memoryMB, 0)
    return used + build.memoryMB <= this.#budgetMB
  }

  /** Takes down what is too much, and everything when the machine is short. */
  async #tidy(): Promise<void> {
    if (await this.#parts.admission.isShort()) while (await this.giveUp()) {}
    for (const kind of this.#all()) {
      while (kind.ready.length > this.#wanted(kind)) await this.#discard(kind.ready.pop()!)
      if (this.#wanted(kind) === 0 && countOf(kind) === 0) this.#kinds.delete(kind.build.buildID)
    }
    // The template that was used last gets a first one, whatever the others have.
    const last = this.#all().at(-1)
    while (last && countOf(last) === 0 && !this.#fits(last) && (await this.giveUp())) {}
  }

  async #boot(kind: Kind): Promise<void> {
    const { driver, launcher, clock, log } = this.#parts
    const identity = { sandboxID: newSandboxID(), runID: newUUID() }
    this.#held.add(identity.sandboxID)
    this.#stopWatching ??= driver.onExit(({ sandboxID }) => this.#dropDead(sandboxID))
    const startedAt = clock.now()
    try {
      const handle = await launcher.boot(kind.build, identity, kind.abort.signal)
      const warm = {
        ...identity,
        handle,
        buildID: kind.build.buildID,
        isFrozen: false,
        cancelFreeze: () => {},
      }
      // The kind may have been dropped meanwhile.
      if (kind.abort.signal.aborted) return await this.#discard(warm)
      kind.bootMs = Math.max(assumedBootMs, clock.now() - startedAt)
      if (kind.build.startCmd || kind.build.snapshot?.memory) this.#freezeLater(warm)
      kind.ready.push(warm)
    } catch (error) {
      kind.failed = true
      this.#held.delete(identity.sandboxID)
      if (kind.abort.signal.aborted) return
      // Nobody waits for it, and the next create of this build tries again.
      log.warn(
        { buildID: kind.build.buildID, err: error },
        'A sandbox of the warm pool could not be started.',
      )
    }
  }

  /** A service may work on and on; while nobody owns it, it stands still. */
  #freezeLater(warm: WarmSandbox): void {
    const { driver, clock, log } = this.#parts
    if (!canFreeze(driver)) return
    warm.cancelFreeze = clock.after(freezeAfterMs, () => {
      warm.freeze = driver.freeze(warm.handle).catch((error) => {
        log.warn({ sandboxID: warm.sandboxID, err: error }, 'A sandbox of the warm pool could not be frozen.')
      })
    })
  }

  #dropDead(sandboxID: string): void {
    for (const { ready } of this.#kinds.values()) {
      const at = ready.findIndex((warm) => warm.sandboxID === sandboxID)
      if (at < 0) continue
      const [warm] = ready.splice(at, 1)
      void this.#discard(warm!)
      this.#refillIn(fillAfterMs)
    }
  }

  async #remove(kind: Kind): Promise<void> {
    this.#kinds.delete(kind.build.buildID)
    kind.abort.abort(new Error('The warm pool does not need this sandbox any more.'))
    await Promise.all([...kind.boots, ...kind.ready.splice(0).map((warm) => this.#discard(warm))])
  }

  async #discard(warm: WarmSandbox): Promise<void> {
    const { driver, log } = this.#parts
    warm.cancelFreeze()
    await driver.stop(warm.handle).catch((error) => {
      // Once it is not held any more, the reconciler takes it for what it is: unowned.
      log.warn({ sandboxID: warm.sandboxID, err: error }, 'A sandbox of the warm pool could not be stopped.')
    })
    this.#held.delete(warm.sandboxID)
  }
}

const countOf = ({ ready, boots }: Kind): number => ready.length + boots.size

function newKind(build: TemplateBuild): Kind {
  return {
    ...{ build, demand: new Demand(), uses: 0, usedAt: 0, bootMs: assumedBootMs, failed: false },
    ...{ ready: [], boots: new Set(), abort: new AbortController() },
  }
}
