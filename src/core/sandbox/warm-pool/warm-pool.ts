/**
 * The warm pool: sandboxes that were booted before anybody asked, never used, without a row or an owner. A create of
 * their template takes one with its id and saves the wait for its boot. The pool yields to whoever waits: it boots only
 * what the machine can carry beside them, and gives sandboxes up when a start is short of memory, CPU or disk. A crash
 * leaves them unowned, and the reconciler removes them.
 */

import type { Clock } from '../../../lib/clock.ts'
import { newSandboxID, newUUID } from '../../../lib/ids.ts'
import type { Log } from '../../../lib/log.ts'
import { canFreeze, type Driver } from '../../ports/driver.ts'
import type { TemplateBuild } from '../../template/template.ts'
import type { Admission, MachineCapacity } from '../capacity/admission.ts'
import type { SandboxLauncher } from '../launch/launcher.ts'
import type { WarmSandbox } from '../launch/warm-sandbox.ts'
import { cpuShareBesideCreates, type PooledBuild, PooledBuilds } from './pooled-builds.ts'

export type WarmPoolSettings = {
  /** So many sandboxes of a template in use are kept at least; 0: there is no pool. */
  least: number
  /**
   * All sandboxes of the pool together may be promised so much memory. Undefined: half of the machine's, and more as
   * long as half of it is really available.
   */
  memoryMB: number | undefined
}

export type WarmPoolParts = {
  driver: Driver
  launcher: Pick<SandboxLauncher, 'boot'>
  admission: Pick<Admission, 'tryEnter' | 'isBusy' | 'isShort'>
  machine: Pick<MachineCapacity, 'memoryMB' | 'cpuCount'>
  settings: WarmPoolSettings
  /** Called with each create of a template that the pool keeps: whether there was a sandbox for it. */
  onTake?: (isWarm: boolean) => void
  clock: Clock
  log: Log
}

/** A sandbox that was just handed out has the CPUs for so long. */
const fillAfterMs = 250
/** After so long the pool looks again whether the machine can carry another boot: while others start, and while it is short. */
const lookAgainMs = 500
const lookWhileShortMs = 5000
/** Once no create has come for so long, the pool boots on all CPUs. */
const quietAfterMs = 1000
const tidyEveryMs = 60_000
/** What a service does after its start is done by then, and an idle agent has given back memory (`idle-memory.ts`). */
const freezeAfterMs = 7000
/** Sandboxes that were booted beyond the budget go when less than this part of the machine's memory is available. */
const giveBackBelow = 1 / 4
/** So many are taken down at once where nobody waits for it. */
const stopsAtOnce = 8

export class WarmPool {
  readonly #parts: WarmPoolParts
  readonly #builds: PooledBuilds
  /** Everything that must not be taken for unowned: ready, being made, or handed out and not yet in a row. */
  readonly #held = new Set<string>()
  /** Those handed out and not yet in a row that counts. */
  readonly #taken = new Map<string, TemplateBuild>()
  /** When the last create came. */
  #createdAt = 0
  #isRefilling = false
  #isDraining = false
  #next: { atMs: number; cancel: () => void } | undefined
  #stopWatching: (() => void) | undefined
  #closed = false

  constructor(parts: WarmPoolParts) {
    this.#parts = parts
    const { settings, machine, clock } = parts
    const { least, memoryMB } = settings
    const budget = { budgetMB: memoryMB ?? machine.memoryMB / 2, mayExceedBudget: memoryMB === undefined }
    this.#builds = new PooledBuilds({ least, ...budget, cpuCount: machine.cpuCount, clock })
  }

  /** A sandbox of this build, still held; call `release` once it has a row. It may have died, and may stand still. */
  take(build: TemplateBuild): WarmSandbox | undefined {
    const warm = this.#builds.find(build.buildID)?.ready.shift()
    warm?.cancelFreeze()
    if (warm) this.#taken.set(warm.sandboxID, build)
    return warm
  }

  /** A create of this build was accepted, so that others may be expected. `isWarm`: `take` had a sandbox for it. */
  recordCreate(build: TemplateBuild, isWarm: boolean): void {
    this.#createdAt = this.#parts.clock.now()
    if (this.#closed || !this.#builds.recordCreate(build)) return
    this.#refillIn(fillAfterMs)
    this.#parts.onTake?.(isWarm)
  }

  /** It has a row now, which owns it and counts for what it takes; or it is gone. */
  release(warm: WarmSandbox): void {
    this.#taken.delete(warm.sandboxID)
    this.#held.delete(warm.sandboxID)
  }

  /** It was not needed after all, and nothing was done to it. */
  putBack(warm: WarmSandbox): void {
    this.#taken.delete(warm.sandboxID)
    const pooled = this.#builds.find(warm.buildID)
    if (!pooled || this.#closed) return void this.#discard(warm)
    pooled.ready.push(warm)
    this.#freezeLater(warm, pooled.build)
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

  /** Templates of which a sandbox is ready. */
  templates(): string[] {
    return [...new Set(this.#builds.all().flatMap(({ build, ready }) => ready.map(() => build.templateID)))]
  }

  /** Templates of which sandboxes are kept, ready or not. */
  pooledTemplates(): string[] {
    return [...new Set(this.#builds.all().map(({ build }) => build.templateID))]
  }

  /** What those were promised that are ready, or handed out and not yet in a row that counts. */
  sum(): { cpuCount: number; memoryMB: number } {
    const builds = [
      ...this.#taken.values(),
      ...this.#builds.all().flatMap(({ build, ready }) => ready.map(() => build)),
    ]
    const total = (key: 'cpuCount' | 'memoryMB') => builds.reduce((sum, build) => sum + build[key], 0)
    return { cpuCount: total('cpuCount'), memoryMB: total('memoryMB') }
  }

  count(): { ready: number; booting: number } {
    const total = (of: (pooled: PooledBuild) => number) =>
      this.#builds.all().reduce((sum, pooled) => sum + of(pooled), 0)
    return { ready: total(({ ready }) => ready.length), booting: total(({ boots }) => boots.size) }
  }

  /**
   * Takes up to so many down at once in favour of somebody who needs what they take. Only what each template has at
   * least is booted again before creates ask for more. False: there is none.
   */
  async giveUp(count: number): Promise<boolean> {
    const isAny = await this.#takeDown(count)
    this.#builds.lowerDemand()
    return isAny
  }

  /** While its node is drained the pool is empty: what waits there would only be in the way. */
  async setDraining(isDraining: boolean): Promise<void> {
    if (this.#isDraining === isDraining) return
    this.#isDraining = isDraining
    if (isDraining) while (await this.#takeDown(stopsAtOnce)) {}
    else this.#refillIn(fillAfterMs)
  }

  /** Takes down everything of a template. True: it was in use. */
  async drop(templateID: string): Promise<boolean> {
    const found = this.#builds.all().filter(({ build }) => build.templateID === templateID)
    await Promise.all(found.map((pooled) => this.#remove(pooled)))
    return found.length > 0
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#next?.cancel()
    this.#stopWatching?.()
    await Promise.all(this.#builds.all().map((pooled) => this.#remove(pooled)))
  }

  #expect(build: TemplateBuild, usedAt: number): void {
    if (!this.#closed && this.#builds.expect(build, usedAt)) this.#refillIn(fillAfterMs)
  }

  /** Where there are several calls, the soonest counts. */
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
    if (this.#closed) return
    if (this.#isRefilling) return this.#refillIn(lookAgainMs)
    this.#isRefilling = true
    try {
      await this.#tidy()
      await this.#bootMissing()
    } catch (error) {
      this.#parts.log.error({ err: error }, 'The warm pool could not be refilled; it tries again later.')
    } finally {
      this.#isRefilling = false
      if (this.#builds.all().length > 0) this.#refillIn(tidyEveryMs)
    }
  }

  async #bootMissing(): Promise<void> {
    const { admission, machine } = this.#parts
    const next = () => (this.#closed || this.#isDraining ? undefined : this.#builds.nextToFill())
    for (let pooled = next(); pooled; pooled = next()) {
      if (!this.#hasFreeCPU()) return this.#refillIn(lookAgainMs)
      const { build, boots } = pooled
      const leaveMB = this.#builds.isWithinBudget(pooled) ? build.memoryMB : machine.memoryMB / 2
      const leave = await admission.tryEnter(build, leaveMB)
      if (!leave) return this.#refillIn(admission.isBusy ? lookAgainMs : lookWhileShortMs)
      const boot = this.#boot(pooled).finally(() => {
        leave()
        boots.delete(boot)
        this.#refillIn(0)
      })
      boots.add(boot)
    }
  }

  /** Whoever creates sandboxes runs commands in them and kills some: that needs CPUs as well. */
  #hasFreeCPU(): boolean {
    const { machine, clock } = this.#parts
    if (this.#taken.size >= machine.cpuCount) return false
    if (clock.now() - this.#createdAt >= quietAfterMs) return true
    return this.count().booting < Math.max(1, cpuShareBesideCreates * machine.cpuCount)
  }

  /** Takes down what is too much, and everything when the machine stays short or the node is drained. */
  async #tidy(): Promise<void> {
    if (this.#isDraining) while (await this.#takeDown(stopsAtOnce)) {}
    while (await this.#hasTooMuch()) if (!(await this.giveUp(stopsAtOnce))) break
    for (let warm = this.#builds.takeSurplus(); warm; warm = this.#builds.takeSurplus())
      await this.#discard(warm)
    for (let warm = this.#builds.takeForLast(); warm; warm = this.#builds.takeForLast())
      await this.#discard(warm)
  }

  /** The machine is short of something, or has little memory left and the pool has more than its budget. */
  async #hasTooMuch(): Promise<boolean> {
    const { admission, machine } = this.#parts
    if (this.#builds.isOverBudget()) return admission.isShort(machine.memoryMB * giveBackBelow)
    return admission.isShort()
  }

  async #takeDown(count: number): Promise<boolean> {
    const taken = this.#builds.takeMany(count)
    await Promise.all(taken.map((warm) => this.#discard(warm)))
    return taken.length > 0
  }

  async #boot(pooled: PooledBuild): Promise<void> {
    const { driver, launcher, clock, log } = this.#parts
    const identity = { sandboxID: newSandboxID(), runID: newUUID() }
    this.#held.add(identity.sandboxID)
    this.#stopWatching ??= driver.onExit(({ sandboxID }) => this.#dropDead(sandboxID))
    const startedAt = clock.now()
    try {
      const handle = await launcher.boot(pooled.build, identity, pooled.abort.signal)
      const { buildID } = pooled.build
      const warm: WarmSandbox = { ...identity, handle, buildID, cancelFreeze: () => {} }
      // The template may have been dropped meanwhile.
      if (pooled.abort.signal.aborted) return await this.#discard(warm)
      this.#freezeLater(warm, pooled.build)
      this.#builds.recordBoot(pooled, warm, clock.now() - startedAt)
    } catch (error) {
      pooled.failed = true
      this.#held.delete(identity.sandboxID)
      if (pooled.abort.signal.aborted) return
      // Nobody waits for it, and the next create of this build tries again.
      log.warn(
        { buildID: pooled.build.buildID, err: error },
        'A sandbox of the warm pool could not be started.',
      )
    }
  }

  /**
   * A service may work on and on; while nobody owns it, it stands still. Once in its life, also if it is put back: the host's
   * kernel may stop a busy gVisor once, and not again and again.
   */
  #freezeLater(warm: WarmSandbox, { startCmd, snapshot }: TemplateBuild): void {
    const { driver, clock, log } = this.#parts
    const hasService = startCmd !== null || snapshot?.memory
    if (!hasService || warm.freeze || !canFreeze(driver)) return
    warm.cancelFreeze = clock.after(freezeAfterMs, () => {
      warm.freeze = driver.freeze(warm.handle).catch((error) => {
        log.warn({ sandboxID: warm.sandboxID, err: error }, 'A sandbox of the warm pool could not be frozen.')
      })
    })
  }

  #dropDead(sandboxID: string): void {
    for (const pooled of this.#builds.all()) {
      const at = pooled.ready.findIndex((warm) => warm.sandboxID === sandboxID)
      if (at < 0) continue
      const [warm] = pooled.ready.splice(at, 1)
      this.#builds.recordDeath(pooled)
      void this.#discard(warm!)
      this.#refillIn(fillAfterMs)
    }
  }

  async #remove(pooled: PooledBuild): Promise<void> {
    this.#builds.remove(pooled)
    pooled.abort.abort(new Error('The warm pool does not need this sandbox any more.'))
    await Promise.all([...pooled.boots, ...pooled.ready.splice(0).map((warm) => this.#discard(warm))])
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
