/**
 * The object store port: bytes that all Warrens of a cluster share, by name. Optional; without it everything stays on
 * the disk of the node that made it. An object is there whole or not at all and never changes. A call rejects with
 * `unavailable` when the failure may pass (no connection, a busy server); what became of the object is unknown then.
 */

/** The name of an object: parts of letters, digits and `-_.`, joined by `/`. */
export type ObjectKey = string

export type ObjectEntry = { key: ObjectKey; bytes: number; modifiedAt: number }

export interface ObjectStore {
  /**
   * Keeps what the content yields under this name. False: an object of that name is there already, and stays as it is.
   * Memory is bounded, whatever the size; parts go up at the same time.
   */
  putIfAbsent(
    key: ObjectKey,
    content: AsyncIterable<Uint8Array> | Uint8Array,
    signal?: AbortSignal,
  ): Promise<boolean>
  /** Its size in bytes. Undefined: it is certain that there is no such object. */
  size(key: ObjectKey, signal?: AbortSignal): Promise<number | undefined>
  /** So many bytes from `start` on. Rejects with `not_found` where there is no such object. */
  read(key: ObjectKey, start: number, length: number, signal?: AbortSignal): Promise<Uint8Array>
  /** Already gone is success. */
  remove(key: ObjectKey): Promise<void>
  list(prefix: string): AsyncIterable<ObjectEntry>
  /** Gives back what uploads that were begun before this time and never finished take. */
  removeUnfinished(before: number): Promise<void>
  close(): Promise<void>
}

/** One file of a pack. Of a file on disk, holes stay holes. */
export type PackedFile = { name: string; path: string } | { name: string; content: AsyncIterable<Uint8Array> }

/** Where the files of a pack go: into files of these names, or to whoever reads them in order. */
export type PackTarget = {
  /**
   * The path at which to write the file, which is not there yet; a function takes its content instead. Undefined: the
   * file is not wanted.
   */
  open(name: string): string | ((content: AsyncIterable<Uint8Array>) => Promise<void>) | undefined
}

/** What is told of a pack beside its files: plain JSON, which only the maker reads. */
export type PackNote = Readonly<Record<string, unknown>>

/**
 * Several files as one object: compressed in parts, each with its checksum, so that many parts are fetched at once.
 */
export interface PackStore {
  /** False: there is one of that name already. */
  save(key: ObjectKey, files: readonly PackedFile[], note: PackNote, signal?: AbortSignal): Promise<boolean>
  /**
   * Verifies every byte. Undefined: it is certain that there is no such pack. What was written when it rejects is for
   * the caller to remove.
   */
  load(
    key: ObjectKey,
    targetOf: (note: PackNote) => PackTarget | Promise<PackTarget>,
    signal?: AbortSignal,
  ): Promise<PackNote | undefined>
  has(key: ObjectKey, signal?: AbortSignal): Promise<boolean>
  remove(key: ObjectKey): Promise<void>
  list(prefix: string): AsyncIterable<ObjectEntry>
}
