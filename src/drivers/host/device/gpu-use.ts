/** Reads how busy the GPUs of this machine are and how much memory they use, from the output of `nvidia-smi`. */
import { join } from 'node:path'
import type { GpuUse } from '../../../core/ports/gpu.ts'
import { systemClock } from '../../../lib/clock.ts'
import { runCommand } from '../../../lib/run-command.ts'

const fields = ['uuid', 'utilization.gpu', 'memory.used', 'memory.total']
const withinMs = 10_000
const freshMs = 4000

/** Use by GPU id. A GPU whose figures are incomplete is missing, such as a part of a card. */
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

/** Caches one reading for all sandboxes for `freshMs`. */
export class GpuMeter {
  #read: { at: number; uses: Promise<Map<string, GpuUse>> } | undefined

  async read(driverFiles: string, ids: readonly string[]): Promise<GpuUse | undefined> {
    const now = systemClock.now()
    if (!this.#read || now - this.#read.at >= freshMs)
      this.#read = { at: now, uses: readGpuUses(driverFiles) }
    // The use of GPUs is one of several figures; a failure here must not hide the others.
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

/** Undefined if the use of one of these GPUs is unknown. */
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
