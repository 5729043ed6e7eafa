/** The command lines of the runtimes. */
import { join } from 'node:path'
import { checkpointProgram } from '../../host/device/driver-files.ts'
import type { Layout } from '../../host/record/layout.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import { flavourOf } from './flavours.ts'
import { logFileName, pidFileName, startMark } from './runtime-files.ts'

/** `direct`: bypass the page cache, which counts as the sandbox's own memory. */
export type MemorySource = { folder: string; direct: boolean }

/** Of a checkpoint that also moves the memory of GPUs. */
export const gpuCheckpointFlag = '--cuda-checkpoint-path'

const directFlag = (direct: boolean): string[] => (direct ? ['--direct'] : [])

/**
 * Starts the container, or restores it from a folder with its memory, and returns as soon as its first
 * process runs; the container then has no parent.
 */
export function startArguments(layout: Layout, record: SandboxRecord, memory?: MemorySource): string[] {
  const folder = layout.sandbox(record.sandboxID)
  const target = [...startMark(folder), '--pid-file', join(folder, pidFileName), record.sandboxID]
  const verb = memory
    ? ['restore', '--detach', '--background', ...directFlag(memory.direct), '--image-path', memory.folder]
    : ['run', '--detach', ...flavourOf(record).runFlags]
  return [...command(layout, record), ...verb, ...target]
}

/** Freezes the whole sandbox while the runtime still answers. Only for runtimes that can write memory to disk. */
export const pauseArguments = (layout: Layout, record: SandboxRecord): string[] => [
  ...command(layout, record),
  'pause',
  record.sandboxID,
]

export const resumeArguments = (layout: Layout, record: SandboxRecord): string[] => [
  ...command(layout, record),
  'resume',
  record.sandboxID,
]

/** Runs a program inside and waits for its end. */
export const execArguments = (layout: Layout, record: SandboxRecord, words: readonly string[]): string[] => [
  ...command(layout, record),
  'exec',
  record.sandboxID,
  ...words,
]

/** Root inside may lack the capability to set the host name, so the program gets it from outside. */
export const renameArguments = (
  layout: Layout,
  record: SandboxRecord,
  setHostname: readonly string[],
): string[] => [
  ...command(layout, record),
  ...['exec', '--cap', 'CAP_SYS_ADMIN', record.sandboxID, ...setHostname, record.sandboxID],
]

/** Always `leave-running`: without it a failed checkpoint ends the sandbox. */
export function checkpointArguments(
  layout: Layout,
  record: SandboxRecord,
  memoryFolder: string,
  direct: boolean,
): string[] {
  return [
    ...command(layout, record),
    ...['checkpoint', '--leave-running', '--compression=none', '--exclude-committed-zero-pages'],
    ...directFlag(direct),
    // gVisor calls it for every process that uses a GPU, before the checkpoint and again when the sandbox goes on.
    ...(record.gpus ? [gpuCheckpointFlag, checkpointProgram] : []),
    ...['--image-path', memoryFolder, record.sandboxID],
  ]
}

/** The command ends when all memory is read back, including that of the GPUs. */
export const awaitRestoreArguments = (layout: Layout, record: SandboxRecord): string[] => [
  // It runs beside an end of the sandbox, whose folder it must not fill again.
  ...command(layout, record, '/dev/null'),
  ...['wait', '--restore', record.sandboxID],
]

function command(
  layout: Layout,
  record: SandboxRecord,
  log = join(layout.sandbox(record.sandboxID), logFileName),
): string[] {
  return [
    record.runtimeBinary,
    ...['--root', layout.runtimeState(record.slot), '--log', log, '--log-format', 'json'],
    ...flavourOf(record).globalFlags(record.platform),
    ...(record.gpus ? flavourOf(record).gpuFlags(record.gpus.borrowedInterface) : []),
  ]
}
