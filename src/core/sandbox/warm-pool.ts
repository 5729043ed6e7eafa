/**
 * The warm pool: sandboxes that were booted before anybody asked, never used, without a row or an owner. A create of
 * their template takes one with its id and saves the wait for its boot. The pool yields to whoever waits: it boots only
 * what the machine can carry beside them, and gives sandboxes up when a start is short of memory, CPU or disk. A crash
 * leaves them unowned, and the reconciler removes them.
 */

import type { Clock } from '../../lib/clock.ts'
import { newSandboxID, newUUID } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { canFreeze, type Driver } from '../driver.ts'
import type { TemplateBuild } from '../template/template.ts'
import type { Admission, MachineCapacity } from './admission.ts'
import type { SandboxLauncher } from './launcher.ts'
import { type PooledBuild, PooledBuilds, shortestBootMs } from './pooled-builds.ts'
import type { WarmSandbox } from './warm-sandbox.ts'

export type WarmPoolSettings = {
  /** So many sandboxes of a template in use are kept at least; 0: there is no pool. */
  least: number
  /** All sandboxes of the pool together may be promised so much memory; undefined: half of the machine's. */
  memoryMB: number | undefined
}

export type WarmPoolParts = {
  driver: Driver
  launcher: Pick<SandboxLauncher, 'boot'>
  admission: Pick<Admission, 'tryEnter' | 'isShort'>
  machine: Pick<MachineCapacity, 'memoryMB'>
  settings: WarmPoolSettings
  /** Called with each create of a template that the pool keeps: whether there was a sandbox for it. */
  onTake?: (isWarm: boolean) => void
  clock: Clock
  log: Log
}

/** A sandbox that was just handed out has the CPUs for so long. */
const fillAfterMs = 250
/** After so long the pool looks again whether the machine can carry another boot. */
const lookAgainMs = 500
const tidyEveryMs = 60_000
/** What a service does after its start is done by then, and an idle agent has given back memory (`idle-memory.ts`). */
const freezeAfterMs = 7000
export class WarmPool {
  readonly #parts: WarmPoolParts
  readonly #builds: PooledBuilds
  /** Everything that must not be taken for unowned: ready, being made, or handed out and not yet in a row. */
  readonly #held = new Set<string>()
  /** Those handed out and not yet in a row that counts. */
  readonly #taken = new Map<string, TemplateBuild>()
  #isRefilling = false
  #isDraining = false
  #next: { atMs: number; cancel: () => void } | undefined
  #stopWatching: (() => void) | undefined
  #closed = false

  constructor(parts: WarmPoolParts) {
    this.#parts = parts
    const { settings, machine, clock } = parts
    const budgetMB = settings.memoryMB ?? machine.memoryMB / 2
    this.#builds = new PooledBuilds({ least: settings.least, budgetMB, clock })
  }

  /** A sandbox of this build, still held; call `release` once it has a row. It may have died, and may stand still. */
  take(build: TemplateBuild): WarmSandbox | undefined {
    const pooled = this.#closed ? undefined : this.#builds.recordCreate(build)
    if (!pooled) return undefined
    this.#refillIn(fillAfterMs)
    const warm = pooled.ready.shift()
    this.#parts.onTake?.(warm !== undefined)
    warm?.cancelFreeze()
    if (warm) this.#taken.set(warm.sandboxID, build)
    return warm
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
    if (pooled && !this.#closed) pooled.ready.push(warm)
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

  /** Takes one down in favour of somebody who needs what it takes. False: there is none. */
  async giveUp(): Promise<boolean> {
    const victim = this.#builds.all().find(({ ready }) => ready.length > 0)
    if (victim) await this.#discard(victim.ready.pop()!)
    return victim !== undefined
  }

  /** While its node is drained the pool is empty: what waits there would only be in the way. */
  async setDraining(isDraining: boolean): Promise<void> {
    if (this.#isDraining === isDraining) return
    this.#isDraining = isDraining
    if (isDraining) while (await this.giveUp()) {}
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
    const next = () => (this.#closed || this.#isDraining ? undefined : this.#builds.nextToFill())
    for (let pooled = next(); pooled; pooled = next()) {
      const leave = await this.#parts.admission.tryEnter(pooled.build)
      if (!leave) return this.#refillIn(lookAgainMs)
      const { boots } = pooled
      const boot = this.#boot(pooled).finally(() => {
        leave()
        boots.delete(boot)
        this.#refillIn(0)
      })
      boots.add(boot)
    }
  }

  /** Takes down what is too much, and everything when the machine is short or the node is drained. */
  async #tidy(): Promise<void> {
    if (this.#isDraining || (await this.#parts.admission.isShort())) while (await this.giveUp()) {}
    for (let warm = this.#builds.takeSurplus(); warm; warm = this.#builds.takeSurplus())
      await this.#discard(warm)
    while (this.#builds.lacksFirst() && (await this.giveUp())) {}
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
      pooled.bootMs = Math.max(shortestBootMs, clock.now() - startedAt)
      if (pooled.build.startCmd || pooled.build.snapshot?.memory) this.#freezeLater(warm)
      pooled.ready.push(warm)
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
    for (const { ready } of this.#builds.all()) {
      const at = ready.findIndex((warm) => warm.sandboxID === sandboxID)
      if (at < 0) continue
      const [warm] = ready.splice(at, 1)
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
