/**
 * Slots: a network namespace with its link, and a mount namespace with an empty disk, prepared so that a
 * start does not wait for them. A slot serves one sandbox and is then removed; its number, and with it its
 * address, is reused only after all others.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { readdir, readFile, rm } from 'node:fs/promises'
import { AppError } from '../../../lib/app-error.ts'
import { systemClock } from '../../../lib/clock.ts'
import { ifPresent } from '../../../lib/if-present.ts'
import type { Disks } from '../disk/disks.ts'
import type { NamespaceThread } from '../namespace/namespace-thread.ts'
import type { NetworkTask } from '../namespace/slot-network.ts'
import { unmountIfMounted } from '../namespace/unmount.ts'
import type { Subnet } from '../network/addresses.ts'
import { olderLinks } from '../network/older-links.ts'
import type { Layout } from '../record/layout.ts'
import type { OwnUsers, SlotUsers } from './own-users.ts'

type Slot = { number: number; diskMB: number; users: SlotUsers | undefined }

type SlotPoolOptions = {
  layout: Layout
  subnet: Subnet
  disks: Disks
  users: OwnUsers | undefined
  namespaces: NamespaceThread
  /** Number of free slots to keep ready. */
  size: number
  /** The disk size to expect until the first sandbox asks for another. */
  diskMB: number
  /** Ends the remaining connections of the sandbox that had an address. */
  forgetFlows: (address: string) => Promise<void>
  log: (message: string, cause?: unknown) => void
}

/** How long a new sandbox boots before its first command. */
const bootMs = 150

export class SlotPool {
  readonly #options: SlotPoolOptions
  readonly #used = new Set<number>()
  #free: Slot[] = []
  #waiting: { resolve: (slot: Slot) => void; reject: (error: unknown) => void }[] = []
  /** Starts that took a slot, or wait for one, and are not over yet. */
  #starting = 0
  /** Starts that were announced and have not come yet. */
  #expected = 0
  #next = 0
  #diskMB: number
  #filling: Promise<void> | undefined
  #cancelRefill: (() => void) | undefined
  #closed = false

  constructor(options: SlotPoolOptions) {
    this.#options = options
    this.#diskMB = options.diskMB
  }

  /** Takes over from an earlier process: removes slots that no sandbox holds, and makes new ones. */
  async open(inUse: Iterable<number>): Promise<void> {
    const { layout, namespaces } = this.#options
    this.#closed = false
    for (const number of inUse) this.#used.add(number)
    this.#next = Number((await ifPresent(readFile(layout.nextSlot, 'utf8'))) ?? '0') || 0
    await this.#removeAllBut(this.#used)
    const older = olderLinks([...this.#used].map((number) => this.#networkOf(number)))
    if (older.length > 0) await namespaces.do({ narrowLinks: older })
    this.refill()
  }

  async #removeAllBut(inUse: ReadonlySet<number>): Promise<void> {
    for (const number of await foundSlots(this.#options.layout)) {
      if (!inUse.has(number)) await this.remove(number)
    }
  }

  /** The caller must call `startIsOver` when its start has ended, successfully or not. */
  async acquire(diskMB: number): Promise<Slot> {
    if (this.#closed) throw closedError()
    this.#starting++
    try {
      return await this.#acquire(diskMB)
    } catch (error) {
      this.startIsOver()
      throw error
    }
  }

  /**
   * Announces `count` starts that come as soon as the work is done, successfully or not; their slots are made
   * meanwhile.
   */
  async expecting<T>(count: number, diskMB: number, work: () => Promise<T>): Promise<T> {
    this.#diskMB = diskMB
    this.#expected += count
    this.refill()
    try {
      return await work()
    } finally {
      this.#expected -= count
    }
  }

  /** While there are free slots, further ones are not made beside a booting sandbox. */
  startIsOver(): void {
    this.#starting--
    this.#cancelRefill ??= systemClock.after(this.#free.length > 0 ? bootMs : 0, () => {
      this.#cancelRefill = undefined
      // A filling that is about to end has checked before this start was over.
      void Promise.resolve(this.#filling).then(() => this.refill())
    })
  }

  async #acquire(diskMB: number): Promise<Slot> {
    this.#diskMB = diskMB
    const ready = this.#free.findIndex((slot) => slot.diskMB === diskMB)
    const slot =
      ready >= 0
        ? this.#free.splice(ready, 1)[0]!
        : (this.#free.shift() ??
          (await new Promise<Slot>((resolve, reject) => {
            this.#waiting.push({ resolve, reject })
            this.refill()
          })))
    if (slot.diskMB === diskMB) return slot
    try {
      await this.#options.disks.remakeForSlot(slot.number, diskMB)
      return { ...slot, diskMB }
    } catch (error) {
      await slot.users?.close()
      await this.remove(slot.number)
      throw error
    }
  }

  /** Removes everything of a slot; missing parts are no failure. */
  async remove(number: number): Promise<void> {
    const { layout, subnet, forgetFlows } = this.#options
    await removeSlot(layout, number, () => forgetFlows(subnet.sandbox(number)))
    this.#used.delete(number)
  }

  /** Removes every slot but those that sandboxes hold; if that is unknown, removes none. */
  async close(inUse: Iterable<number> | undefined): Promise<void> {
    this.#closed = true
    this.#cancelRefill?.()
    this.#cancelRefill = undefined
    for (const waiting of this.#waiting.splice(0)) waiting.reject(closedError())
    await this.#filling
    for (const { users } of this.#free.splice(0)) await users?.close()
    if (inUse) await this.#removeAllBut(new Set(inUse))
  }

  /**
   * Makes the missing slots in the background: at once if somebody waits for them or will soon, and otherwise
   * when no start is under way, so that the two do not compete.
   */
  refill(): void {
    if (this.#closed) return
    this.#filling ??= this.#makeMissing().finally(() => {
      this.#filling = undefined
      // Somebody may have come while the last slot was being handed over.
      if (this.#waiting.length > 0) this.refill()
    })
  }

  #wanted(): number {
    const later = this.#starting === 0 ? this.#options.size : 0
    return this.#waiting.length + Math.max(this.#expected, later)
  }

  async #makeMissing(): Promise<void> {
    while (!this.#closed && this.#free.length < this.#wanted()) {
      try {
        const slot = await this.#make()
        const waiting = this.#waiting.shift()
        if (waiting) waiting.resolve(slot)
        else this.#free.push(slot)
      } catch (error) {
        this.#options.log('A slot for a sandbox could not be made', error)
        for (const waiting of this.#waiting.splice(0)) waiting.reject(error)
        return
      }
    }
  }

  async #make(): Promise<Slot> {
    const { disks, users, namespaces } = this.#options
    const number = await this.#nextNumber()
    const diskMB = this.#diskMB
    let owned: SlotUsers | undefined
    try {
      const network = this.#networkOf(number)
      if (users?.isUsable) owned = await users.make(number, network)
      else await namespaces.do({ makeNetwork: network })
      await disks.makeForSlot(number, diskMB)
      return { number, diskMB, users: owned }
    } catch (error) {
      await owned?.close()
      await this.remove(number)
      throw new AppError(
        'unavailable',
        'A network and a disk for the sandbox could not be made; the log of the server has the cause.',
        { cause: error },
      )
    }
  }

  #networkOf(number: number): NetworkTask {
    const { layout, subnet } = this.#options
    return {
      path: layout.netnsPath(number),
      link: layout.link(number),
      gateway: subnet.gateway(number),
      address: subnet.sandbox(number),
    }
  }

  async #nextNumber(): Promise<number> {
    const { subnet, layout } = this.#options
    for (let tried = 0; tried < subnet.capacity; tried++) {
      const number = this.#next % subnet.capacity
      this.#next = number + 1
      if (this.#used.has(number)) continue
      this.#used.add(number)
      writeFileSync(layout.nextSlot, String(this.#next), { mode: 0o600 })
      return number
    }
    throw new AppError(
      'unavailable',
      `All ${subnet.capacity} addresses of ${subnet.cidr} are in use; choose a larger subnet.`,
      { slug: 'sandbox_capacity_unavailable' },
    )
  }
}

const closedError = () =>
  new AppError('unavailable', 'Sandboxes cannot be started any more: the server is closing.')

async function foundSlots(layout: Layout): Promise<number[]> {
  const names = async (folder: string, pattern: RegExp) =>
    ((await ifPresent(readdir(folder))) ?? []).flatMap((name) => pattern.exec(name)?.[1] ?? [])
  const all = await Promise.all([
    names('/run/netns', new RegExp(`^${layout.netnsPrefix}(\\d+)$`)),
    names(layout.mountNamespaces, /^(\d+)$/),
    names(layout.disks, /^slot-(\d+)\.ext4$/),
  ])
  return [...new Set(all.flat().map(Number))]
}

/**
 * Connections are forgotten when nothing can send any more, and before the last file by which a later process would find
 * the slot again.
 */
async function removeSlot(layout: Layout, number: number, forgetFlows: () => Promise<void>): Promise<void> {
  const namespaces = [layout.netnsPath(number), layout.mountNamespace(number)]
  // A namespace file may be incomplete or unmounted already; it cannot be removed while a mount is on top of it.
  await unmountIfMounted(namespaces)
  await forgetFlows()
  for (const path of namespaces) rmSync(path, { force: true })
  await rm(layout.slotDisk(number), { force: true })
}
