/** Packs in memory, with knobs for tests. */
import type {
  ObjectEntry,
  OpenedPack,
  PackedFile,
  PackNote,
  PackStore,
  PackTarget,
} from '../core/ports/object-store.ts'

type FakePack = { note: PackNote; files: Map<string, Buffer> }

export class FakePacks implements PackStore {
  readonly packs = new Map<string, FakePack>()
  /** The keys of the stored packs, in order. */
  readonly saved: string[] = []
  loads = 0
  /** True: reading fails half-way. */
  isDamaged = false

  async store(
    key: string,
    files: readonly PackedFile[],
    note: PackNote,
  ): Promise<{ isNew: boolean; checksum: string }> {
    const stored: FakePack = { note, files: new Map() }
    for (const file of files) {
      if ('path' in file) throw new Error('this fake takes streams only')
      const parts: Uint8Array[] = []
      for await (const part of file.content) parts.push(part)
      stored.files.set(file.name, Buffer.concat(parts))
    }
    if (this.packs.has(key)) return { isNew: false, checksum: key }
    this.packs.set(key, stored)
    this.saved.push(key)
    return { isNew: true, checksum: key }
  }

  async open(key: string): Promise<OpenedPack | undefined> {
    const stored = this.packs.get(key)
    if (!stored) return undefined
    const fetch = async ({ open }: PackTarget) => {
      for (const [name, bytes] of stored.files) {
        const write = open(name, bytes.length)
        if (typeof write === 'function') await write(this.#content(bytes))
      }
    }
    return { note: stored.note, checksum: key, fetch, partsOf: () => undefined }
  }

  async fetch(
    key: string,
    targetOf: (note: PackNote) => PackTarget | Promise<PackTarget>,
  ): Promise<PackNote | undefined> {
    this.loads++
    const pack = await this.open(key)
    await pack?.fetch(await targetOf(pack.note))
    return pack?.note
  }

  async *#content(bytes: Buffer): AsyncGenerator<Uint8Array> {
    yield bytes.subarray(0, bytes.length >> 1)
    if (this.isDamaged) throw new Error('damaged')
    yield bytes.subarray(bytes.length >> 1)
  }

  async has(key: string): Promise<boolean> {
    return this.packs.has(key)
  }

  async remove(key: string): Promise<void> {
    this.packs.delete(key)
  }

  async *list(prefix: string): AsyncGenerator<ObjectEntry> {
    for (const key of this.packs.keys()) if (key.startsWith(prefix)) yield { key, bytes: 1, modifiedAt: 0 }
  }
}
