/** Makes the GPUs of this machine ready for sandboxes, and learns which of them sandboxes have already. */
import { mkdir } from 'node:fs/promises'
import { prepareDriverFiles } from '../../host/device/driver-files.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import type { OciContext } from '../context/context.ts'

export async function openGpus(
  { gpus, layout }: OciContext,
  present: readonly SandboxRecord[],
): Promise<void> {
  if (!gpus) return
  // Another process may have had the sandboxes since this one knew them.
  gpus.shares.forget()
  for (const { runID, gpus: reserved, ended } of present) {
    if (reserved && !ended) gpus.shares.adopt(runID, reserved.ids)
  }
  await mkdir(layout.gpuDrivers, { recursive: true, mode: 0o755 })
  const isUsed = (folder: string) => present.some((record) => record.gpus?.files === folder)
  gpus.files = await prepareDriverFiles(layout.gpuDrivers, gpus.machine, gpus.checkpointProgram, isUsed)
}
