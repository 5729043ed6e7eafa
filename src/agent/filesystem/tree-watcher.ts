/**
 * Reports changes in one folder, or in all folders below it, in the order in which they happen. A new folder
 * is watched too; entries that were put into it before its watch existed are found by listing it, and
 * reported as well.
 */
import { type Dirent, promises as files } from 'node:fs'
import { join } from 'node:path'
import { EventType } from '../../contract/rpc/filesystem-fields.ts'
import { AppError } from '../../lib/app-error.ts'
import { fromSystemError } from '../errors.ts'
import { type Change, ChangeQueue } from './change-queue.ts'
import { flag, type Inotify, type InotifyEvent, type InotifyListener } from './inotify.ts'
import { type TemporaryKind, temporaryKind } from './temporary-name.ts'

const maxFolders = 50_000
/**
 * Names found by listing whose own event may still be on its way; forgetting them only reports them twice.
 */
const maxFound = 10_000
/** Limit for unprocessed events, while folders are being added. */
const maxWaiting = 100_000
/** The kernel's own trees change all the time and report nothing. */
const unwatchable = new Set(['/proc', '/sys'])
const errno = { noEntry: 2, noInstance: 24, noWatch: 28 }

/** The events for a file that gets its name from a temporary one. */
const arrivals: Record<TemporaryKind, Change['type'][]> = {
  // As if it were created at its name, given to its owner and then written.
  new: [EventType.CREATE, EventType.CHMOD, EventType.WRITE],
  over: [EventType.WRITE],
  moving: [EventType.CREATE],
}

export class TreeWatcher implements InotifyListener {
  readonly changes = new ChangeQueue()
  readonly root: string
  #inotify: Inotify
  #recursive: boolean
  /** By watch, relative to the root, which is ''. */
  #folders = new Map<number, string>()
  #found = new Set<string>()
  #moving: { cookie: number; name: string } | undefined
  /**
   * By the cookie of their move: the kernel interleaves the halves of moves that happen at once in several
   * folders.
   */
  #arriving = new Map<number, TemporaryKind>()
  /** Names whose watch turned out to belong to another folder, which has replaced them. */
  #displaced: string[] = []
  #waiting = 0
  #work: Promise<void>

  /** The watches exist when this resolves. */
  static async open(inotify: Inotify, root: string, recursive: boolean): Promise<TreeWatcher> {
    const watcher = new TreeWatcher(inotify, root, recursive)
    await watcher.#work
    if (watcher.changes.failure) throw watcher.changes.failure
    return watcher
  }

  private constructor(inotify: Inotify, root: string, recursive: boolean) {
    this.root = root
    this.#inotify = inotify
    this.#recursive = recursive
    this.#work = this.#adopt('', false).catch((error) => this.#fail(error))
  }

  accept(events: InotifyEvent[]): void {
    this.#waiting += events.length
    if (this.#waiting > maxWaiting) this.lost()
    this.#work = this.#work.then(() => this.#handleAll(events)).catch((error) => this.#fail(error))
  }

  lost(): void {
    this.#fail(new AppError('limit_reached', 'events came too fast and some were lost: watch anew'))
  }

  close(): void {
    this.#inotify.leave(this)
    this.changes.end()
  }

  #fail(error: unknown): void {
    this.#inotify.leave(this)
    this.changes.fail(fromSystemError(error, this.root))
  }

  async #handleAll(events: InotifyEvent[]): Promise<void> {
    this.#waiting -= events.length
    for (const event of events) {
      if (this.changes.over) return this.#inotify.leave(this)
      const folder = this.#folders.get(event.watch)
      if (folder === undefined) continue
      // The two halves of a move are adjacent, or the second does not come at all.
      const moved = this.#moving?.cookie === event.cookie ? this.#moving : undefined
      if (this.#moving && !moved) this.#forgetBelow(this.#moving.name)
      this.#moving = undefined
      if (event.name === '') this.#handleOwn(event, folder)
      else await this.#handle(event, join(folder, event.name), moved)
    }
  }

  /** The watch on its parent reports events of a folder below the root; only the root needs its own. */
  #handleOwn({ mask, watch }: InotifyEvent, folder: string): void {
    if (folder === '') {
      if (mask & flag.attrib) this.changes.push('.', EventType.CHMOD)
      if (mask & (flag.deleteSelf | flag.unmount)) this.changes.push('.', EventType.REMOVE)
      if (mask & flag.moveSelf) this.changes.push('.', EventType.RENAME)
      if (mask & (flag.deleteSelf | flag.unmount | flag.moveSelf | flag.ignored)) this.close()
    }
    if (mask & flag.ignored) this.#folders.delete(watch)
  }

  async #handle(
    { mask, cookie, name: ownName }: InotifyEvent,
    name: string,
    moved: { name: string } | undefined,
  ): Promise<void> {
    const kind = temporaryKind(ownName)
    if (kind) {
      if (mask & flag.movedFrom) this.#arrive(cookie, kind)
      return
    }
    if (mask & flag.movedFrom) this.#moving = { cookie, name }
    if (mask & (flag.create | flag.movedTo)) {
      const arrived = this.#arriving.get(cookie)
      this.#arriving.delete(cookie)
      await this.#appeared(name, arrived ? arrivals[arrived] : [EventType.CREATE], {
        isFolder: (mask & flag.isFolder) !== 0,
        moved,
      })
    }
    if (mask & (flag.delete | flag.movedFrom)) this.#found.delete(name)
    if (mask & flag.modify) this.changes.push(name, EventType.WRITE)
    if (mask & flag.delete) this.changes.push(name, EventType.REMOVE)
    if (mask & flag.movedFrom) this.changes.push(name, EventType.RENAME)
    if (mask & flag.attrib) this.changes.push(name, EventType.CHMOD)
  }

  #arrive(cookie: number, kind: TemporaryKind): void {
    if (this.#arriving.size >= maxFound) this.#arriving.clear()
    this.#arriving.set(cookie, kind)
  }

  async #appeared(
    name: string,
    types: Change['type'][],
    { isFolder, moved }: { isFolder: boolean; moved: { name: string } | undefined },
  ): Promise<void> {
    if (this.#found.delete(name)) return
    for (const type of types) this.changes.push(name, type)
    if (!isFolder || !this.#recursive) return
    if (moved && this.#rename(moved.name, name)) return
    await this.#adopt(name, true)
    const displaced = this.#displaced
    for (const folder of displaced) await this.#adopt(folder, true)
    this.#displaced = []
  }

  /** Watches stay with their folder when it is renamed; false if it had none. */
  #rename(from: string, to: string): boolean {
    const below = this.#below(from)
    for (const [watch, folder] of below) this.#folders.set(watch, to + folder.slice(from.length))
    return below.length > 0
  }

  #forgetBelow(name: string): void {
    const watches = this.#below(name).map(([watch]) => watch)
    for (const watch of watches) this.#folders.delete(watch)
    this.#inotify.remove(watches, this)
  }

  #below(name: string): [number, string][] {
    return [...this.#folders].filter(([, folder]) => folder === name || folder.startsWith(`${name}/`))
  }

  /**
   * Watches a folder and those below it. Adds the watch before listing, so that nothing is missed in between.
   */
  async #adopt(first: string, isReported: boolean): Promise<void> {
    const waiting = [first]
    while (waiting.length > 0 && !this.changes.over) {
      const folder = waiting.pop()!
      if (!this.#watch(folder)) continue
      if (this.#recursive) waiting.push(...(await this.#look(folder, isReported)))
      if (this.#folders.size + waiting.length > maxFolders) {
        throw new AppError(
          'limit_reached',
          `more than ${maxFolders} directories to watch below '${this.root}': watch a part of it`,
        )
      }
    }
  }

  /** False for a folder that vanished meanwhile. */
  #watch(folder: string): boolean {
    const isRoot = folder === ''
    const watch = this.#inotify.add(join(this.root, folder), this, { throughLinks: isRoot })
    if (watch < 0) {
      rejectWatch(-watch, isRoot ? this.root : undefined)
      return false
    }
    const before = this.#folders.get(watch)
    if (before !== undefined && before !== folder) this.#displaced = [...this.#displaced, before]
    this.#folders.set(watch, folder)
    return true
  }

  /** Returns the folders in a folder; if it is new, everything in it is reported. */
  async #look(folder: string, isReported: boolean): Promise<string[]> {
    const path = join(this.root, folder)
    const entries = await files.readdir(path, { withFileTypes: true }).catch(() => [] as Dirent[])
    const folders: string[] = []
    for (const entry of entries) {
      const name = join(folder, entry.name)
      if (temporaryKind(entry.name)) continue
      if (entry.isDirectory() && !unwatchable.has(join(path, entry.name))) folders.push(name)
      if (isReported) await this.#reportFound(name, entry)
    }
    return folders
  }

  async #reportFound(name: string, entry: Dirent): Promise<void> {
    if (this.#found.size >= maxFound) this.#found.clear()
    this.#found.add(name)
    this.changes.push(name, EventType.CREATE)
    if (!entry.isFile()) return
    const stats = await files.lstat(join(this.root, name)).catch(() => undefined)
    if (stats && stats.size > 0) this.changes.push(name, EventType.WRITE)
  }
}

/** A folder that vanished before it could be watched is no failure, unless it is the requested one. */
function rejectWatch(error: number, root: string | undefined): void {
  if (error === errno.noWatch || error === errno.noInstance) {
    throw new AppError(
      'limit_reached',
      'the machine has no inotify watches left: watch a smaller directory, or stop other watchers',
    )
  }
  if (root === undefined) return
  if (error === errno.noEntry) throw new AppError('not_found', `no such file or directory: ${root}`)
  throw new AppError('invalid_argument', `path cannot be watched: ${root}`)
}
