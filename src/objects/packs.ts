/** Packs in an object store. */
import type {
  ObjectEntry,
  ObjectKey,
  ObjectStore,
  OpenedPack,
  PackedFile,
  PackNote,
  PackStore,
  PackTarget,
} from '../core/ports/object-store.ts'
import { AppError } from '../lib/app-error.ts'
import { openPack } from './pack-reader.ts'
import { writePack } from './pack-writer.ts'
import { type PartWriter, plainWriter } from './part-writer.ts'

export class ObjectPacks implements PackStore {
  readonly #store: ObjectStore
  readonly #writer: PartWriter

  constructor(store: ObjectStore, writer: PartWriter = plainWriter(store)) {
    this.#store = store
    this.#writer = writer
  }

  async store(
    key: ObjectKey,
    files: readonly PackedFile[],
    note: PackNote,
    signal?: AbortSignal,
  ): Promise<{ isNew: boolean; checksum: string }> {
    // Looked up first: reading and compressing everything for nothing would cost more.
    const known = await this.open(key, signal)
    if (known) return { isNew: false, checksum: known.checksum }
    let checksum = ''
    const noteChecksum = (ofIndex: string) => {
      checksum = ofIndex
    }
    const isNew = await this.#store.putIfAbsent(key, writePack(files, note, noteChecksum, signal), signal)
    if (isNew) return { isNew, checksum }
    const other = await this.open(key, signal)
    if (other) return { isNew, checksum: other.checksum }
    throw new AppError('unavailable', `The object ${key} was removed while it was stored. Try again.`)
  }

  open(key: ObjectKey, signal?: AbortSignal): Promise<OpenedPack | undefined> {
    return openPack({ store: this.#store, writer: this.#writer }, key, signal)
  }

  async fetch(
    key: ObjectKey,
    targetOf: (note: PackNote) => PackTarget | Promise<PackTarget>,
    signal?: AbortSignal,
  ): Promise<PackNote | undefined> {
    const pack = await this.open(key, signal)
    await pack?.fetch(await targetOf(pack.note), signal)
    return pack?.note
  }

  async has(key: ObjectKey, signal?: AbortSignal): Promise<boolean> {
    return (await this.#store.size(key, signal)) !== undefined
  }

  remove(key: ObjectKey): Promise<void> {
    return this.#store.remove(key)
  }

  list(prefix: string): AsyncIterable<ObjectEntry> {
    return this.#store.list(prefix)
  }
}
