/** Watches on single folders, shared by all watchers: a sandbox needs at most one inotify instance. */
import { closeSync, read } from 'node:fs'
import { promisify } from 'node:util'
import { type CFunction, openCLibrary } from '../../lib/c-library.ts'

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
const closeOnExec = 0o2000000
const readAtOnce = 64 * 1024

export type InotifyEvent = { watch: number; mask: number; cookie: number; name: string }

export type InotifyListener = {
  /** Gets events in the order in which they happened, without those of other listeners' folders. */
  accept(events: InotifyEvent[]): void
  /** Called when events were lost, or when none will come any more. */
  lost(): void
}

type Calls = { init: CFunction; add: CFunction; remove: CFunction; errno(): number }
const readBytes = promisify(read)

export class Inotify {
  #addonPath: string
  #calls: Calls | undefined
  /** Open while anybody watches. */
  #fd: number | undefined
  #members = new Set<InotifyListener>()
  #listeners = new Map<number, Set<InotifyListener>>()

  constructor(addonPath: string) {
    this.#addonPath = addonPath
  }

  /** Watches one folder; returns the number of the watch, or a negative error number. */
  add(path: string, listener: InotifyListener, { throughLinks = false } = {}): number {
    const calls = this.#bind()
    this.#members.add(listener)
    if (this.#fd === undefined) {
      const fd = calls.init(closeOnExec)
      if (fd < 0) return -calls.errno()
      this.#fd = fd
      void this.#readOn(fd)
    }
    const watch = calls.add(this.#fd, path, wanted | onlyFolders | (throughLinks ? 0 : notThroughLinks))
    if (watch < 0) return -calls.errno()
    const listeners = this.#listeners.get(watch)
    if (listeners) listeners.add(listener)
    else this.#listeners.set(watch, new Set([listener]))
    return watch
  }

  remove(watches: Iterable<number>, listener: InotifyListener): void {
    for (const watch of watches) {
      const listeners = this.#listeners.get(watch)
      if (!listeners?.delete(listener) || listeners.size > 0) continue
      this.#listeners.delete(watch)
      this.#bind().remove(this.#fd, watch)
    }
  }

  leave(listener: InotifyListener): void {
    if (!this.#members.delete(listener)) return
    this.remove([...this.#listeners.keys()], listener)
    if (this.#members.size === 0) this.#wakeReader()
  }

  /** The end of any watch is an event of its own. */
  #wakeReader(): void {
    if (this.#fd === undefined) return
    const calls = this.#bind()
    calls.remove(this.#fd, calls.add(this.#fd, '/', flag.deleteSelf))
  }

  /** Waits in one of Node's own threads, which costs nothing while nothing happens. */
  async #readOn(fd: number): Promise<void> {
    const buffer = Buffer.alloc(readAtOnce)
    try {
      while (this.#members.size > 0) {
        const { bytesRead } = await readBytes(fd, buffer, 0, buffer.length, null)
        this.#spread(buffer.subarray(0, bytesRead))
      }
    } catch {
      for (const listener of [...this.#members]) listener.lost()
    } finally {
      this.#fd = undefined
      this.#listeners.clear()
      closeSync(fd)
    }
  }

  #spread(raw: Buffer): void {
    const shares = new Map<InotifyListener, InotifyEvent[]>()
    for (const event of parseEvents(raw)) {
      if (event.mask & flag.overflow) for (const listener of [...this.#members]) listener.lost()
      for (const listener of this.#listeners.get(event.watch) ?? []) {
        const share = shares.get(listener)
        if (share) share.push(event)
        else shares.set(listener, [event])
      }
      if (event.mask & flag.ignored) this.#listeners.delete(event.watch)
    }
    for (const [listener, events] of shares) listener.accept(events)
  }

  #bind(): Calls {
    if (this.#calls) return this.#calls
    const libc = openCLibrary(this.#addonPath)
    this.#calls = {
      init: libc.func('int inotify_init1(int flags)'),
      add: libc.func('int inotify_add_watch(int fd, const char *path, uint32_t mask)'),
      remove: libc.func('int inotify_rm_watch(int fd, int watch)'),
      errno: libc.errno,
    }
    return this.#calls
  }
}

function parseEvents(raw: Buffer): InotifyEvent[] {
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
