/** The object store of a history: packs in memory, as one step each, and a watch over what is removed. */
import type {
  ObjectEnd,
  ObjectEntry,
  ObjectKey,
  ObjectStore,
  OpenedPack,
  PackedFile,
  PackedParts,
  PackNote,
  PackStore,
  PackTarget,
} from '../../src/core/ports/object-store.ts'
import { AppError } from '../../src/lib/app-error.ts'

const unused = () =>
  Promise.reject(new AppError('internal', 'The simulation keeps nothing but packs and a mark.'))

type Pack = { note: PackNote; files: Map<string, Uint8Array> }

export class SimulatedPacks implements PackStore, ObjectStore {
  readonly #packs = new Map<ObjectKey, Pack>()
  /** Objects that are no packs: the mark of the cluster. */
  readonly #marks = new Map<ObjectKey, Uint8Array>()
  readonly #onRemoved: (key: ObjectKey) => void

  /** As settings name it. */
  readonly location: string

  constructor(location: string, onRemoved: (key: ObjectKey) => void) {
    this.location = location
    this.#onRemoved = onRemoved
  }

  async store(
    key: ObjectKey,
    files: readonly PackedFile[],
    note: PackNote,
  ): Promise<{ isNew: boolean; checksum: string }> {
    if (this.#packs.has(key)) return { isNew: false, checksum: key }
    const read = new Map<string, Uint8Array>()
    for (const file of files) {
      if ('path' in file) throw new AppError('internal', 'The fake driver packs no files of a disk.')
      const parts: Uint8Array[] = []
      for await (const part of file.content) parts.push(part)
      read.set(file.name, Buffer.concat(parts))
    }
    this.#packs.set(key, { note, files: read })
    return { isNew: true, checksum: key }
  }

  async open(key: ObjectKey): Promise<OpenedPack | undefined> {
    const pack = this.#packs.get(key)
    if (!pack) return undefined
    const fetch = async (target: PackTarget) => {
      for (const [name, bytes] of pack.files) {
        const open = target.open(name, bytes.length)
        if (typeof open === 'function') await open(inOnePiece(bytes))
      }
    }
    const partsOf = (name: string) => this.#partsOf(key, pack.files.get(name))
    return { note: pack.note, checksum: key, fetch, partsOf }
  }

  /** Reads fail once the object is removed. */
  #partsOf(key: ObjectKey, bytes: Uint8Array | undefined): PackedParts | undefined {
    const read = async () => {
      if (this.#packs.has(key)) return bytes!
      throw new AppError('not_found', `The object store has no ${key}.`)
    }
    const write = () => Promise.reject(new Error('Simulations have no files.'))
    return bytes && { parts: [{ at: 0, bytes: bytes.length }], read, write }
  }

  async fetch(
    key: ObjectKey,
    targetOf: (note: PackNote) => PackTarget | Promise<PackTarget>,
  ): Promise<PackNote | undefined> {
    const pack = await this.open(key)
    await pack?.fetch(await targetOf(pack.note))
    return pack?.note
  }

  hasPack(key: ObjectKey): boolean {
    return this.#packs.has(key)
  }

  async has(key: ObjectKey): Promise<boolean> {
    return this.#packs.has(key)
  }

  async remove(key: ObjectKey): Promise<void> {
    if (this.#packs.delete(key)) this.#onRemoved(key)
  }

  /** All are said to be old, so that the sweep spares none for its age alone. */
  async *list(prefix: string): AsyncGenerator<ObjectEntry> {
    for (const key of [...this.#packs.keys()])
      if (key.startsWith(prefix)) yield { key, bytes: 1, modifiedAt: 0 }
  }

  async removeUnfinished(): Promise<void> {}

  async putIfAbsent(key: ObjectKey, content: AsyncIterable<Uint8Array> | Uint8Array): Promise<boolean> {
    if (!(content instanceof Uint8Array)) return unused()
    if (this.#marks.has(key)) return false
    this.#marks.set(key, content)
    return true
  }

  async readEnd(key: ObjectKey): Promise<ObjectEnd | undefined> {
    const bytes = this.#marks.get(key)
    return bytes && { bytes, size: bytes.length }
  }

  async size(key: ObjectKey): Promise<number | undefined> {
    return this.#packs.has(key) ? 1 : undefined
  }

  /** It has the mark of the cluster. */
  get isMarked(): boolean {
    return this.#marks.size > 0
  }

  readonly read = unused
  async close(): Promise<void> {}
}

/** The same store, whose packs are read by calls that wait and go wrong like any other. */
export function withParkedReads(packs: PackStore, wrap: <T extends object>(parts: T) => T): PackStore {
  const open = async (key: ObjectKey, signal?: AbortSignal): Promise<OpenedPack | undefined> => {
    const pack = await packs.open(key, signal)
    if (!pack) return undefined
    const { fetch } = wrap({ fetch: pack.fetch })
    const partsOf = (name: string) => {
      const found = pack.partsOf(name)
      return found && { ...found, read: wrap({ read: found.read }).read }
    }
    return { ...pack, fetch, partsOf }
  }
  return new Proxy(packs, {
    get: (target, property) => (property === 'open' ? open : Reflect.get(target, property)),
  })
}

async function* inOnePiece(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
