/** What the GPUs of this machine do, as the driver's own program tells it. */
import { join } from 'node:path'
import type { GpuUse } from '../../../core/ports/driver.ts'
import { systemClock } from '../../../lib/clock.ts'
import { runCommand } from '../../../lib/run-command.ts'

const fields = ['uuid', 'utilization.gpu', 'memory.used', 'memory.total']
const withinMs = 10_000
const freshMs = 4000

/** By the ids of the GPUs. One that does not tell all of it, as a part of a card, is missing. */
export async function readGpuUses(driverFiles: string): Promise<Map<string, GpuUse>> {
  const program = join(driverFiles, 'bin', 'nvidia-smi')
  const query = [`--query-gpu=${fields.join(',')}`, '--format=csv,noheader,nounits']
  const { stdout } = await runCommand(
    'env',
    [`LD_LIBRARY_PATH=${join(driverFiles, 'lib')}`, program, ...query],
    {
      timeoutMs: withinMs,
    },
  )
  return parseGpuUses(stdout)
}

/** Asks at most once in a while, for all sandboxes together. */
export class GpuMeter {
  #read: { at: number; uses: Promise<Map<string, GpuUse>> } | undefined

  async read(driverFiles: string, ids: readonly string[]): Promise<GpuUse | undefined> {
    const now = systemClock.now()
    if (!this.#read || now - this.#read.at >= freshMs)
      this.#read = { at: now, uses: readGpuUses(driverFiles) }
    // It is one of several figures: the others are told without it.
    return this.#read.uses.then(
      (uses) => sumUses(uses, ids),
      () => undefined,
    )
  }
}

export function parseGpuUses(text: string): Map<string, GpuUse> {
  const uses = new Map<string, GpuUse>()
  for (const line of text.split('\n')) {
    const [id = '', ...values] = line.split(',').map((part) => part.trim())
    const [busyPct, usedMiB, totalMiB] = values.map((value) =>
      /^\d+$/.test(value) ? Number(value) : undefined,
    )
    if (busyPct === undefined || usedMiB === undefined || totalMiB === undefined) continue
    uses.set(id, { busyPct, memoryUsedBytes: usedMiB * 2 ** 20, memoryTotalBytes: totalMiB * 2 ** 20 })
  }
  return uses
}

/** Undefined: of one of them nothing is known. */
export function sumUses(uses: ReadonlyMap<string, GpuUse>, ids: readonly string[]): GpuUse | undefined {
  const own = ids.flatMap((id) => uses.get(id) ?? [])
  if (own.length < ids.length || own.length === 0) return undefined
  const sum = (key: keyof GpuUse) => own.reduce((total, use) => total + use[key], 0)
  return {
    busyPct: sum('busyPct') / own.length,
    memoryUsedBytes: sum('memoryUsedBytes'),
    memoryTotalBytes: sum('memoryTotalBytes'),
  }
}
