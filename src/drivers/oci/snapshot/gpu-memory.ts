/**
 * Makes space for GPU memory in snapshots. On its way to the disk and back, GPU memory lies in the memory of the sandbox.
 * So the sandbox's memory limit is raised meanwhile; otherwise the kernel would kill the sandbox in the middle of a pause.
 */
import { readFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { AppError, errorText } from '../../../lib/app-error.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { readGpuUses, sumUses } from '../../host/device/gpu-use.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import type { OciContext } from '../context/context.ts'
import { lowerMemoryLater, raiseMemory } from '../context/memory-limit.ts'
import { awaitRestoreArguments } from '../runtime/runtime-commands.ts'

/** Even the largest GPU memory of one machine moves to the host in two minutes, and to a disk in ten. */
export const gpuMemoryLimitMs = 20 * 60_000
/** Memory of the machine that must stay free. */
const spareBytes = 512 * 2 ** 20

/**
 * Raises the memory limit of a sandbox by the memory that its GPUs hold and by what a snapshot of it writes, and returns the
 * bytes on the GPUs. Undefined if the sandbox has no GPU. Rejects if the machine has too little memory.
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
    const message = `The memory use of the GPU of sandbox ${sandboxID} cannot be read, so no snapshot with memory can be taken.`
    throw new AppError('unavailable', message)
  }
  const availableBytes = await readAvailableBytes(context)
  if (bytes + spareBytes > availableBytes) {
    throw new AppError(
      'unavailable',
      `The GPU of sandbox ${sandboxID} holds ${gigabytes(bytes)} GB, which a snapshot moves through the memory of ` +
        `the machine, and only ${gigabytes(availableBytes)} GB of that are available. Free GPU memory, or try again later.`,
    )
  }
  // The kernel counts what the runtime writes to files too, and would slow it down to the speed of the disk.
  await raiseMemory(context, record, Math.min(2 * bytes, availableBytes - spareBytes))
  return bytes
}

/** Rejects with the driver's message if the GPU memory could not be restored; the sandbox is then gone. */
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
  lowerMemoryLater(context, record)
}

/** Available memory of the machine, or the rest of the limit of all sandboxes together if that is less. */
async function readAvailableBytes({ cgroups, layout, totalMemoryMB }: OciContext): Promise<number> {
  const text = await readFile('/proc/meminfo', 'utf8')
  const availableBytes = Number(/^MemAvailable:\s*(\d+) kB$/m.exec(text)?.[1] ?? 0) * 1024
  if (totalMemoryMB === null) return availableBytes
  const { memoryUsedBytes } = await cgroups.use(layout.cgroupParent)
  return Math.min(availableBytes, totalMemoryMB * 2 ** 20 - memoryUsedBytes)
}

const gigabytes = (bytes: number): string => (bytes / 1e9).toFixed(1)
