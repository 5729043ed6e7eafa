/**
 * The warm pool: booted sandboxes that nobody has used yet, without a row or an owner. A create of their
 * template takes one with its ID and so avoids waiting for a boot. The pool yields to every start that
 * somebody waits for: it boots only what the machine can carry beside them, and gives sandboxes up when a
 * start lacks memory, CPU or disk. A crash leaves pooled sandboxes unowned, and the reconciler removes them.
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
  /** Minimum number of pooled sandboxes for a template in use; 0 turns the pool off. */
  min: number
  /**
   * Maximum memory allocated to all pooled sandboxes. Undefined: half of the machine's memory, and more while
   * half of it is really available.
   */
  memoryMB: number | undefined
}

export type WarmPoolParts = {
  driver: Driver
  launcher: Pick<SandboxLauncher, 'boot'>
  admission: Pick<Admission, 'tryEnter' | 'isBusy' | 'isShort'>
  machine: Pick<MachineCapacity, 'memoryMB' | 'cpuCount'>
  settings: WarmPoolSettings
  /** Called for each create of a pooled template, with whether the pool had a sandbox for it. */
  onAcquire?: (isWarm: boolean) => void
  clock: Clock
  log: Log
}

/** Delay before the pool refills after a hand-over, so that the new sandbox gets the CPUs. */
const fillAfterMs = 250
/**
 * How often the pool checks whether the machine can carry another boot: while others start, and while the
 * machine is short.
 */
const lookAgainMs = 500
const lookWhileShortMs = 5000
/** The pool boots on all CPUs after this time without a create. */
const quietAfterMs = 1000
const tidyEveryMs = 60_000
/**
 * By this time a service has finished its start-up work, and an idle agent has returned memory
 * (`idle-memory.ts`).
 */
const freezeAfterMs = 7000
/**
 * Sandboxes beyond the budget are given up when less than this share of the machine's memory is available.
 */
const giveBackBelow = 1 / 4
/** Number of sandboxes to stop at once when nobody waits for it. */
const stopsAtOnce = 8

export class WarmPool {
  readonly #parts: WarmPoolParts
  readonly #builds: PooledBuilds
  /** Sandboxes that must not count as unowned: ready, booting, or handed out without a row yet. */
  readonly #owned = new Set<string>()
  /** Builds of sandboxes that are handed out and have no row yet that counts. */
  readonly #handedOut = new Map<string, TemplateBuild>()
  /** The time of the last create. */
  #createdAt = 0
  #isRefilling = false
  #isDraining = false
  #next: { atMs: number; cancel: () => void } | undefined
  #stopWatching: (() => void) | undefined
  #closed = false

  constructor(parts: WarmPoolParts) {
    this.#parts = parts
    const { settings, machine, clock } = parts
    const { min, memoryMB } = settings
    const budget = { budgetMB: memoryMB ?? machine.memoryMB / 2, mayExceedBudget: memoryMB === undefined }
    this.#builds = new PooledBuilds({ min, ...budget, cpuCount: machine.cpuCount, clock })
  }

  /**
   * Returns a sandbox of this build, still held. Call `release` once it has a row. It may have died, and may
   * be frozen.
   */
  acquire(build: TemplateBuild): WarmSandbox | undefined {
    const warm = this.#builds.find(build.buildID)?.ready.shift()
    warm?.cancelFreeze()
    if (warm) this.#handedOut.set(warm.sandboxID, build)
    return warm
  }

  /**
   * Records an accepted create of this build, so that the pool prepares for more. `isWarm`: `acquire` had a
   * sandbox for it.
   */
  recordCreate(build: TemplateBuild, isWarm: boolean): void {
    this.#createdAt = this.#parts.clock.now()
    if (this.#closed || !this.#builds.recordCreate(build)) return
    this.#refillIn(fillAfterMs)
    this.#parts.onAcquire?.(isWarm)
  }

  /**
   * Stops holding a sandbox that has a row now, which owns it and counts for its size, or that no longer
   * exists.
   */
  release(warm: WarmSandbox): void {
    this.#handedOut.delete(warm.sandboxID)
    this.#owned.delete(warm.sandboxID)
  }

  /** Returns an unused and unchanged sandbox to the pool. */
  putBack(warm: WarmSandbox): void {
    this.#handedOut.delete(warm.sandboxID)
    const pooled = this.#builds.find(warm.buildID)
    if (!pooled || this.#closed) return void this.#discard(warm)
    pooled.ready.push(warm)
    this.#freezeLater(warm, pooled.build)
  }

  owns(sandboxID: string): boolean {
    return this.#owned.has(sandboxID)
  }

  /** Keeps sandboxes of this build ready from now on, whether it is used or not. */
  keepReady(build: TemplateBuild): void {
    this.#expect(build, Number.POSITIVE_INFINITY)
  }

  /**
   * Called when a template has a new build. If the pool had sandboxes of the template, it now boots some of
   * the new build.
   */
  async replace(build: TemplateBuild): Promise<void> {
    if (await this.drop(build.templateID)) this.#expect(build, this.#parts.clock.now())
  }

  /** Templates with a ready sandbox. */
  templates(): string[] {
    return [...new Set(this.#builds.all().flatMap(({ build, ready }) => ready.map(() => build.templateID)))]
  }

  /** Templates with a pool, ready or not. */
  pooledTemplates(): string[] {
    return [...new Set(this.#builds.all().map(({ build }) => build.templateID))]
  }

  /** CPU and memory allocated to sandboxes that are ready, or handed out without a row that counts yet. */
  sum(): { cpuCount: number; memoryMB: number } {
    const builds = [
      ...this.#handedOut.values(),
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
   * Stops up to `count` sandboxes for somebody who needs their resources. Until creates ask for more, the
   * pool only boots each template's minimum again. False if the pool is empty.
   */
  async giveUp(count: number): Promise<boolean> {
    const isAny = await this.#endSome(count)
    this.#builds.lowerDemand()
    return isAny
  }

  /** Empties the pool while the node drains: waiting sandboxes would only be in the way. */
  async setDraining(isDraining: boolean): Promise<void> {
    if (this.#isDraining === isDraining) return
    this.#isDraining = isDraining
    if (isDraining) while (await this.#endSome(stopsAtOnce)) {}
    else this.#refillIn(fillAfterMs)
  }

  /** Stops all sandboxes of a template. True if the pool had any. */
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

  /** If several calls are pending, the earliest counts. */
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

  /** Clients that create sandboxes also run commands in them and kill some, which needs CPUs too. */
  #hasFreeCPU(): boolean {
    const { machine, clock } = this.#parts
    if (this.#handedOut.size >= machine.cpuCount) return false
    if (clock.now() - this.#createdAt >= quietAfterMs) return true
    return this.count().booting < Math.max(1, cpuShareBesideCreates * machine.cpuCount)
  }

  /** Stops surplus sandboxes, and all sandboxes if the machine stays short or the node drains. */
  async #tidy(): Promise<void> {
    if (this.#isDraining) while (await this.#endSome(stopsAtOnce)) {}
    while (await this.#hasTooMuch()) if (!(await this.giveUp(stopsAtOnce))) break
    for (let warm = this.#builds.acquireSurplus(); warm; warm = this.#builds.acquireSurplus())
      await this.#discard(warm)
    for (let warm = this.#builds.acquireForLast(); warm; warm = this.#builds.acquireForLast())
      await this.#discard(warm)
  }

  /**
   * True if the machine is short of something, or if it has little memory left and the pool exceeds its
   * budget.
   */
  async #hasTooMuch(): Promise<boolean> {
    const { admission, machine } = this.#parts
    if (this.#builds.isOverBudget()) return admission.isShort(machine.memoryMB * giveBackBelow)
    return admission.isShort()
  }

  async #endSome(count: number): Promise<boolean> {
    const surplus = this.#builds.acquireMany(count)
    await Promise.all(surplus.map((warm) => this.#discard(warm)))
    return surplus.length > 0
  }

  async #boot(pooled: PooledBuild): Promise<void> {
    const { driver, launcher, clock, log } = this.#parts
    const identity = { sandboxID: newSandboxID(), runID: newUUID() }
    this.#owned.add(identity.sandboxID)
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
      this.#owned.delete(identity.sandboxID)
      if (pooled.abort.signal.aborted) return
      // Nobody waits for this sandbox, and the next create of the build tries again.
      log.warn(
        { buildID: pooled.build.buildID, err: error },
        'A sandbox of the warm pool could not be started.',
      )
    }
  }

  /**
   * Freezes a sandbox whose service may work on and on, while nobody owns it. Freezes it only once, even if it
   * is put back: a busy gVisor may lose processes if the host's kernel freezes it again and again.
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
      // Once the pool does not hold the sandbox, the reconciler treats it as unowned.
      log.warn({ sandboxID: warm.sandboxID, err: error }, 'A sandbox of the warm pool could not be stopped.')
    })
    this.#owned.delete(warm.sandboxID)
  }
}
