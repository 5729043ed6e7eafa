/**
 * What the memory of a sandbox's GPUs needs when it is saved and restored: on its way to the disk and back it lies in the
 * memory of the sandbox, beyond what the sandbox is allowed otherwise. Without that the kernel would end the sandbox in the
 * middle of a pause.
 */
import { readFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { AppError, errorText } from '../../../lib/app-error.ts'
import { delay } from '../../../lib/clock.ts'
import { runCommand } from '../../../lib/run-command.ts'
import type { OciContext } from '../context/context.ts'
import { raiseMemory, usualLimit } from '../context/memory-limit.ts'
import { readGpuUses, sumUses } from '../device/gpu-use.ts'
import type { SandboxRecord } from '../record/records.ts'
import { awaitRestoreArguments } from '../runtime/runtime-commands.ts'

/** The most GPU memory of one machine goes to the host in two minutes, and to a disk in ten. */
export const gpuMemoryLimitMs = 20 * 60_000
/** What the machine keeps beside it. */
const spareBytes = 512 * 2 ** 20
/** Of what is freed, gVisor gives the last part back a moment later. */
const lowerWithinMs = 10_000

/**
 * Gives a sandbox memory for what its GPUs hold, and says how much that is. Undefined: it has none. Rejects if the
 * machine does not have as much.
 */
export async function makeSpaceForGpuMemory(
  context: OciContext,
  record: SandboxRecord,
): Promise<number | undefined> {
  const { gpus, sandboxID } = record
  if (!gpus) return undefined
  const use = sumUses(await readGpuUses(gpus.files), gpus.ids)
  const bytes = use?.memoryUsedBytes
  if (bytes === undefined) {
    const message = `It cannot be read how much memory the GPU of sandbox ${sandboxID} holds, so the sandbox cannot be saved with it.`
    throw new AppError('unavailable', message)
  }
  const availableBytes = await readAvailableBytes(context)
  if (bytes + spareBytes > availableBytes) {
    throw new AppError(
      'unavailable',
      `The GPU of sandbox ${sandboxID} holds ${gigabytes(bytes)} GB, which pass through the memory of the machine ` +
        `when it is saved, and ${gigabytes(availableBytes)} GB of that are available. Free GPU memory, or try again later.`,
    )
  }
  await raiseMemory(context, record, bytes)
  return bytes
}

/** Once the GPUs have their memory back. Where it is not given back in time the sandbox keeps the higher limit. */
export async function lowerMemoryLimit(context: OciContext, record: SandboxRecord): Promise<void> {
  const limit = usualLimit(record)
  if (limit === undefined) return
  const { cgroups, layout } = context
  const group = layout.cgroup(record.sandboxID)
  for (let waitedMs = 0; waitedMs < lowerWithinMs; waitedMs += 100) {
    const { memoryUsedBytes, memoryCacheBytes } = await cgroups.use(group)
    // A limit below what is in use would end the sandbox.
    if (memoryUsedBytes + memoryCacheBytes + spareBytes / 4 < limit) return cgroups.lowerMemory(group, limit)
    await delay(100)
  }
}

/** Rejects with the driver's words if a GPU could not get its memory back; the sandbox is gone then. */
export async function untilGpusRestored(context: OciContext, record: SandboxRecord): Promise<void> {
  const [program, ...args] = awaitRestoreArguments(context.layout, record)
  try {
    await runCommand(program!, args, { timeoutMs: gpuMemoryLimitMs })
  } catch (error) {
    const said = errorText(error).slice(-500)
    throw new AppError('unavailable', `The memory of the sandbox's GPU could not be restored: ${said}`, {
      cause: error,
    })
  }
}

/** What a start does once the restore is over, for one whose process has died meanwhile. */
export async function finishGpuRestore(context: OciContext, record: SandboxRecord): Promise<void> {
  if (!record.gpus) return
  // It fails if the sandbox has ended, which whoever asks looks at next.
  const isBack = await untilGpusRestored(context, record).then(
    () => true,
    () => false,
  )
  if (!isBack) return
  // The limit may be that of the boot, below the usual one, or the one that was raised for the memory of the GPU.
  await raiseMemory(context, record, totalmem())
  await lowerMemoryLimit(context, record)
}

/** Of the machine, and of what all sandboxes together may have of it. */
async function readAvailableBytes({ cgroups, layout, totalMemoryMB }: OciContext): Promise<number> {
  const text = await readFile('/proc/meminfo', 'utf8')
  const availableBytes = Number(/^MemAvailable:\s*(\d+) kB$/m.exec(text)?.[1] ?? 0) * 1024
  if (totalMemoryMB === null) return availableBytes
  const { memoryUsedBytes } = await cgroups.use(layout.cgroupParent)
  return Math.min(availableBytes, totalMemoryMB * 2 ** 20 - memoryUsedBytes)
}

const gigabytes = (bytes: number): string => (bytes / 1e9).toFixed(1)
