/** A fake driver whose sandboxes start from the object store before their memory has arrived. */
import type {
  CanFillMemory,
  DriverCapabilities,
  DriverHandle,
  ImportOptions,
  Snapshot,
  SnapshotOptions,
} from '../../core/ports/driver.ts'
import type { MemoryLoad, PartsOfFile } from '../../core/ports/memory-load.ts'
import type { PackNote, PackTarget } from '../../core/ports/object-store.ts'
import { AppError } from '../../lib/app-error.ts'
import { FakeDriver } from './fake-driver.ts'

export class ArrivingDriver extends FakeDriver implements CanFillMemory {
  override readonly capabilities: DriverCapabilities = {
    ...new FakeDriver().capabilities,
    fillMemory: true,
  }
  /** Awaited before memory is read. */
  beforeFilled: (signal: AbortSignal) => Promise<void> = async () => {}

  override async findSnapshot(folder: string): Promise<Snapshot | undefined> {
    const found = await super.findSnapshot(folder)
    return found && this.world.snapshots.get(folder)?.arrives ? { ...found, arriving: true } : found
  }

  override async importSnapshot(
    folder: string,
    options: ImportOptions,
    fetch: (targetOf: (note: PackNote) => Promise<PackTarget>) => Promise<boolean>,
  ): Promise<Snapshot | undefined> {
    const later = async (targetOf: (note: PackNote) => Promise<PackTarget>) =>
      fetch(async (note) => {
        const target = await targetOf(note)
        return {
          open: (name, bytes) =>
            name === 'memory' && options.memoryLater ? undefined : target.open(name, bytes),
        }
      })
    const found = await super.importSnapshot(folder, options, later)
    if (!found?.memory || !options.memoryLater) return found
    this.world.snapshots.get(folder)!.arrives = 'missing'
    return this.findSnapshot(folder)
  }

  async fillMemory(folder: string, partsOf: PartsOfFile, { signal }: MemoryLoad): Promise<void> {
    await this.beforeFilled(signal)
    signal.throwIfAborted()
    const bytes = await partsOf('memory')!.read(0, signal)
    const snapshot = this.world.snapshots.get(folder)
    if (snapshot?.arrives !== 'missing') return
    const memory = new Map<string, string>(JSON.parse(Buffer.from(bytes).toString()))
    snapshot.arrives = 'filled'
    snapshot.content.memory = memory
    for (const sandbox of this.world.sandboxes.values()) {
      if (sandbox.spec.runID !== snapshot.consumedBy) continue
      for (const [key, value] of memory) if (!sandbox.memory.has(key)) sandbox.memory.set(key, value)
    }
  }

  async awaitMemory(handle: DriverHandle): Promise<void> {
    const there = await this.recover(handle)
    if (there === 'gone' || this.#lacksMemory(handle)) {
      throw new AppError('unavailable', `Sandbox ${handle.data.sandboxID} does not have all its memory.`)
    }
  }

  override async takeSnapshot(
    handle: DriverHandle,
    folder: string,
    options: SnapshotOptions,
    signal?: AbortSignal,
  ): Promise<Snapshot> {
    // The real driver would wait here with a sandbox that stands still.
    if (options.memory && this.#lacksMemory(handle))
      throw new AppError('internal', 'A snapshot was taken of memory that had not arrived.')
    return super.takeSnapshot(handle, folder, options, signal)
  }

  #lacksMemory(handle: DriverHandle): boolean {
    return [...this.world.snapshots.values()].some(
      ({ consumedBy, arrives }) => consumedBy === handle.data.runID && arrives === 'missing',
    )
  }
}
