/** Watches on single folders, shared by all watchers: a sandbox needs one inotify instance at most. */
import type { SyscallProcess } from './syscall-process.ts'

export const flag = {
  modify: 0x2,
  attrib: 0x4,
  movedFrom: 0x40,
  movedTo: 0x80,
  create: 0x100,
  delete: 0x200,
  deleteSelf: 0x400,
  moveSelf: 0x800,
  unmount: 0x2000,
  overflow: 0x4000,
  ignored: 0x8000,
  isFolder: 0x4000_0000,
} as const

const wanted =
  flag.modify |
  flag.attrib |
  flag.movedFrom |
  flag.movedTo |
  flag.create |
  flag.delete |
  flag.deleteSelf |
  flag.moveSelf
const onlyFolders = 0x100_0000
const notThroughLinks = 0x200_0000

export type InotifyEvent = { watch: number; mask: number; cookie: number; name: string }

export type Listener = {
  /** Events in the order in which they happened, those of other listeners' folders left out. */
  take(events: InotifyEvent[]): void
  /** Events were lost, or none will come any more. */
  lost(): void
}

export class Inotify {
  #syscalls: SyscallProcess
  #listeners = new Map<number, Set<Listener>>()
  #members = new Set<Listener>()
  #adding = 0

  constructor(syscalls: SyscallProcess) {
    this.#syscalls = syscalls
    syscalls.listen(
      (raw) => this.#spread(raw),
      () => {
        this.#listeners.clear()
        for (const listener of this.#members) listener.lost()
      },
    )
  }

  join(listener: Listener): void {
    this.#members.add(listener)
    this.#syscalls.hold()
  }

  leave(listener: Listener): void {
    if (!this.#members.delete(listener)) return
    for (const listeners of this.#listeners.values()) listeners.delete(listener)
    void this.#dropUnused()
    this.#syscalls.release()
  }

  /** For each folder the number of its watch, or a negative error number. */
  async add(paths: string[], listener: Listener, { throughLinks = false } = {}): Promise<number[]> {
    const mask = wanted | onlyFolders | (throughLinks ? 0 : notThroughLinks)
    this.#adding++
    try {
      return await this.#syscalls.call('watch', [String(mask), ...paths], (answer) =>
        paths.map((_, i) => this.#listen(answer.readInt32BE(i * 4), listener)),
      )
    } finally {
      this.#adding--
      void this.#dropUnused()
    }
  }

  remove(watches: Iterable<number>, listener: Listener): void {
    for (const watch of watches) this.#listeners.get(watch)?.delete(listener)
    void this.#dropUnused()
  }

  #listen(watch: number, listener: Listener): number {
    if (watch > 0) {
      const listeners = this.#listeners.get(watch) ?? new Set()
      this.#listeners.set(watch, listeners)
      // Who has left meanwhile hears nothing, and the watch is found unused.
      if (this.#members.has(listener)) listeners.add(listener)
    }
    return watch
  }

  /** Not while a watch is being added: the kernel may just be giving out one that looks unused to us. */
  async #dropUnused(): Promise<void> {
    if (this.#adding > 0) return
    const unused = [...this.#listeners]
      .filter(([, listeners]) => listeners.size === 0)
      .map(([watch]) => watch)
    for (const watch of unused) this.#listeners.delete(watch)
    if (unused.length > 0) await this.#syscalls.call('unwatch', unused.map(String), () => {}).catch(() => {})
  }

  #spread(raw: Buffer): void {
    const shares = new Map<Listener, InotifyEvent[]>()
    for (const event of parseEvents(raw)) {
      if (event.mask & flag.overflow) for (const listener of [...this.#members]) listener.lost()
      for (const listener of this.#listeners.get(event.watch) ?? []) {
        const share = shares.get(listener)
        if (share) share.push(event)
        else shares.set(listener, [event])
      }
      if (event.mask & flag.ignored) this.#listeners.delete(event.watch)
    }
    for (const [listener, events] of shares) listener.take(events)
  }
}

export function parseEvents(raw: Buffer): InotifyEvent[] {
  const events: InotifyEvent[] = []
  for (let at = 0; at + 16 <= raw.length; ) {
    const length = raw.readUInt32LE(at + 12)
    const name = raw.subarray(at + 16, at + 16 + length)
    const end = name.indexOf(0)
    events.push({
      watch: raw.readInt32LE(at),
      mask: raw.readUInt32LE(at + 4),
      cookie: raw.readUInt32LE(at + 8),
      name: name.subarray(0, end < 0 ? name.length : end).toString(),
    })
    at += 16 + length
  }
  return events
}
