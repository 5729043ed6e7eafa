/** An object store in memory, with knobs for failures: for tests of the domain. */
import type { ObjectEnd, ObjectEntry, ObjectKey, ObjectStore } from '../core/ports/object-store.ts'
import { AppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { systemClock } from '../lib/clock.ts'

export class MemoryObjectStore implements ObjectStore {
  readonly objects = new Map<ObjectKey, { bytes: Uint8Array; modifiedAt: number }>()
  /** True: every call fails, as if the store could not be reached. */
  isGone = false
  /** Called before each step; if it throws, the step rejects with that error. */
  onStep: (step: string, key: string) => void | Promise<void> = () => {}
  readonly #clock: Clock

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  async putIfAbsent(
    key: ObjectKey,
    content: AsyncIterable<Uint8Array> | Uint8Array,
    signal?: AbortSignal,
  ): Promise<boolean> {
    await this.#step('put', key)
    const parts: Uint8Array[] = []
    if (content instanceof Uint8Array) parts.push(content)
    else {
      for await (const part of content) {
        signal?.throwIfAborted()
        parts.push(part)
      }
    }
    await this.#step('finish', key)
    if (this.objects.has(key)) return false
    this.objects.set(key, { bytes: Buffer.concat(parts), modifiedAt: this.#clock.now() })
    return true
  }

  async size(key: ObjectKey): Promise<number | undefined> {
    await this.#step('size', key)
    return this.objects.get(key)?.bytes.length
  }

  async read(key: ObjectKey, start: number, length: number): Promise<Uint8Array> {
    await this.#step('read', key)
    const found = this.objects.get(key)
    if (!found) throw new AppError('not_found', `The object store has no ${key}.`)
    return found.bytes.subarray(start, start + length)
  }

  async readEnd(key: ObjectKey, length: number): Promise<ObjectEnd | undefined> {
    await this.#step('read', key)
    const found = this.objects.get(key)
    return found && { bytes: found.bytes.subarray(-length), size: found.bytes.length }
  }

  async remove(key: ObjectKey): Promise<void> {
    await this.#step('remove', key)
    this.objects.delete(key)
  }

  async *list(prefix: string): AsyncGenerator<ObjectEntry> {
    await this.#step('list', prefix)
    for (const [key, { bytes, modifiedAt }] of [...this.objects].sort()) {
      if (key.startsWith(prefix)) yield { key, bytes: bytes.length, modifiedAt }
    }
  }

  async removeUnfinished(): Promise<void> {
    await this.#step('remove unfinished', '')
  }

  async close(): Promise<void> {}

  async #step(step: string, key: string): Promise<void> {
    await this.onStep(step, key)
    if (this.isGone) throw new AppError('unavailable', 'The object store cannot be reached.')
  }
}
