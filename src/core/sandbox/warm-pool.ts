/**
 * The warm pool: sandboxes that were booted before anybody asked, never used, without a row or an owner. A create that
 * fits one takes it with its id and saves the wait for its boot. A crash leaves them unowned, and the reconciler
 * removes them.
 */
import type { Clock } from '../../lib/clock.ts'
import { newSandboxID, newUUID } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import type { Driver, DriverHandle, SandboxSpec } from '../driver.ts'

export type WarmSpec = Omit<SandboxSpec, 'sandboxID' | 'runID'>
export type WarmSandbox = { sandboxID: string; runID: string; handle: DriverHandle }

/** Kinds of sandboxes that were asked for last are kept; the others are let go. */
const mostKinds = 3
const fillAfterMs = 250

type Kind = { spec: WarmSpec; ready: WarmSandbox[]; failed: boolean }

export class WarmPool {
  readonly #parts: { driver: Driver; size: number; clock: Clock; log: Log }
  /** In the order of their last use. */
  #kinds = new Map<string, Kind>()
  /** Everything that must not be taken for unowned: ready, being made, or handed out and not yet in a row. */
  #held = new Set<string>()
  #filling: Promise<void> | undefined
  #cancelFill: (() => void) | undefined
  #closed = false

  /** `size` is how many of each kind wait. */
  constructor(parts: { driver: Driver; size: number; clock: Clock; log: Log }) {
    this.#parts = parts
  }

  /** A running sandbox of this kind, still held; call `release` once it has a row. */
  async take(spec: WarmSpec): Promise<WarmSandbox | undefined> {
    const kind = this.#use(spec)
    for (let warm = kind?.ready.shift(); warm; warm = kind?.ready.shift()) {
      if (await this.#isRunning(warm)) return warm
      await this.#discard(warm)
    }
    return undefined
  }

  /** It has a row now, which owns it. */
  release(warm: WarmSandbox): void {
    this.#held.delete(warm.sandboxID)
  }

  /** It was not needed after all. */
  putBack(spec: WarmSpec, warm: WarmSandbox): void {
    this.#use(spec)?.ready.push(warm)
  }

  holds(sandboxID: string): boolean {
    return this.#held.has(sandboxID)
  }

  /** Makes what is missing a little later and one after another, so that a sandbox just handed out has the CPUs. */
  fill(spec: WarmSpec): void {
    const kind = this.#use(spec)
    if (!kind) return
    kind.failed = false
    this.#cancelFill ??= this.#parts.clock.after(fillAfterMs, () => {
      this.#cancelFill = undefined
      this.#filling ??= this.#makeMissing().finally(() => {
        this.#filling = undefined
      })
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#cancelFill?.()
    await this.#filling
    const all = [...this.#kinds.values()].flatMap(({ ready }) => ready)
    this.#kinds.clear()
    await Promise.all(all.map((warm) => this.#discard(warm)))
  }

  #use(spec: WarmSpec): Kind | undefined {
    if (this.#closed || this.#parts.size === 0) return undefined
    const key = JSON.stringify(spec)
    const kind = this.#kinds.get(key) ?? { spec, ready: [], failed: false }
    this.#kinds.delete(key)
    this.#kinds.set(key, kind)
    return kind
  }

  /** One of which this cannot be found out is of no use either: a create can boot its own. */
  async #isRunning({ sandboxID, handle }: WarmSandbox): Promise<boolean> {
    const { driver, log } = this.#parts
    try {
      return (await driver.recover(handle)) === 'running'
    } catch (error) {
      log.warn({ sandboxID, err: error }, 'A sandbox of the warm pool could not be read.')
      return false
    }
  }

  async #makeMissing(): Promise<void> {
    await this.#dropOldKinds()
    for (let kind = this.#nextToFill(); kind; kind = this.#nextToFill()) {
      const warm = await this.#make(kind)
      if (warm) kind.ready.push(warm)
    }
  }

  #nextToFill(): Kind | undefined {
    if (this.#closed) return undefined
    const kinds = [...this.#kinds.values()].reverse()
    return kinds.find(({ ready, failed }) => !failed && ready.length < this.#parts.size)
  }

  async #make(kind: Kind): Promise<WarmSandbox | undefined> {
    const { driver, log } = this.#parts
    const identity = { sandboxID: newSandboxID(), runID: newUUID() }
    this.#held.add(identity.sandboxID)
    try {
      return { ...identity, handle: await driver.start({ ...kind.spec, ...identity, disposable: true }) }
    } catch (error) {
      // Nobody waits for it, and the next create of this kind tries again.
      kind.failed = true
      this.#held.delete(identity.sandboxID)
      log.warn({ err: error }, 'A sandbox of the warm pool could not be started.')
      return undefined
    }
  }

  async #dropOldKinds(): Promise<void> {
    const old = [...this.#kinds].slice(0, Math.max(0, this.#kinds.size - mostKinds))
    for (const [key, { ready }] of old) {
      this.#kinds.delete(key)
      await Promise.all(ready.map((warm) => this.#discard(warm)))
    }
  }

  async #discard(warm: WarmSandbox): Promise<void> {
    const { driver, log } = this.#parts
    await driver.stop(warm.handle).catch((error) => {
      // Once it is not held any more, the reconciler takes it for what it is: unowned.
      log.warn({ sandboxID: warm.sandboxID, err: error }, 'A sandbox of the warm pool could not be stopped.')
    })
    this.#held.delete(warm.sandboxID)
  }
}
