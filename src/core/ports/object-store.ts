/**
 * The object store port: named bytes that all Warrens of a cluster share. Optional; without it everything
 * stays on the disk of the node that made it. An object exists completely or not at all, and never changes. A
 * call rejects with `unavailable` if the failure may pass (no connection, a busy server); the state of the
 * object is unknown then.
 */

/** The name of an object: parts of letters, digits and `-_.`, joined by `/`. */
export type ObjectKey = string

export type ObjectEntry = { key: ObjectKey; bytes: number; modifiedAt: number }

/** `size` is that of the whole object. */
export type ObjectEnd = { bytes: Uint8Array; size: number }

export interface ObjectStore {
  /**
   * Stores the content under this key. False if an object with this key exists already; that object stays as
   * it is. Memory use is bounded for any size; several parts are uploaded at the same time.
   */
  putIfAbsent(
    key: ObjectKey,
    content: AsyncIterable<Uint8Array> | Uint8Array,
    signal?: AbortSignal,
  ): Promise<boolean>
  /** Returns the size in bytes. Undefined if it is certain that there is no such object. */
  size(key: ObjectKey, signal?: AbortSignal): Promise<number | undefined>
  /** Returns `length` bytes from `start` on. Rejects with `not_found` if there is no such object. */
  read(key: ObjectKey, start: number, length: number, signal?: AbortSignal): Promise<Uint8Array>
  /**
   * Returns the last `length` bytes, or all of an object that is shorter. Undefined if it is certain that there is no such
   * object.
   */
  readEnd(key: ObjectKey, length: number, signal?: AbortSignal): Promise<ObjectEnd | undefined>
  /** Succeeds if the object does not exist. */
  remove(key: ObjectKey): Promise<void>
  list(prefix: string): AsyncIterable<ObjectEntry>
  /** Removes the parts of uploads that began before this time and never finished. */
  removeUnfinished(before: number): Promise<void>
  close(): Promise<void>
}

/** One file of a pack. Holes of a file on disk stay holes. */
export type PackedFile = { name: string; path: string } | { name: string; content: AsyncIterable<Uint8Array> }

/** Decides where the files of a pack go: to a path on disk, or to a function that reads them in order. */
export type PackTarget = {
  /** The files need not survive a power cut. */
  isTemporary?: boolean
  /**
   * Returns a path at which no file exists yet, or a function that reads the content. Undefined skips the
   * file.
   */
  open(
    name: string,
    bytes: number,
  ): string | ((content: AsyncIterable<Uint8Array>) => Promise<void>) | undefined
}

/** The parts of one file of a pack, in any order. Bytes that are in no part are zero. */
export type PackedParts = {
  parts: readonly { at: number; bytes: number }[]
  /** Fetches one part, by its index in `parts`, and verifies it. */
  read(index: number, signal: AbortSignal): Promise<Uint8Array>
  /**
   * Fetches and verifies one part, and writes it to its position in an open file. The file must stay open until this
   * settles, after an abort too.
   */
  write(index: number, fd: number, signal: AbortSignal): Promise<void>
}

/** A pack whose index was read. */
export interface OpenedPack {
  readonly note: PackNote
  /** The checksum of the index, which has the checksums of all bytes of the pack. */
  readonly checksum: string
  /**
   * Fetches the files that the target takes, and verifies every byte. If it rejects, the caller must remove
   * the files that were written.
   */
  fetch(target: PackTarget, signal?: AbortSignal): Promise<void>
  /** Undefined if the pack has no such file. */
  partsOf(name: string): PackedParts | undefined
}

/** Data that is stored with a pack beside its files: plain JSON that only the maker reads. */
export type PackNote = Readonly<Record<string, unknown>>

/**
 * Stores several files as one object, compressed in parts with a checksum each, so that many parts are
 * fetched at once.
 */
export interface PackStore {
  /** Stores nothing if a pack with this key exists already: `isNew` is false then, and the checksum is of that pack. */
  store(
    key: ObjectKey,
    files: readonly PackedFile[],
    note: PackNote,
    signal?: AbortSignal,
  ): Promise<{ isNew: boolean; checksum: string }>
  /** Undefined if it is certain that there is no such pack. */
  open(key: ObjectKey, signal?: AbortSignal): Promise<OpenedPack | undefined>
  /** Opens a pack and fetches its files, as `OpenedPack.fetch` does. */
  fetch(
    key: ObjectKey,
    targetOf: (note: PackNote) => PackTarget | Promise<PackTarget>,
    signal?: AbortSignal,
  ): Promise<PackNote | undefined>
  has(key: ObjectKey, signal?: AbortSignal): Promise<boolean>
  remove(key: ObjectKey): Promise<void>
  list(prefix: string): AsyncIterable<ObjectEntry>
}
