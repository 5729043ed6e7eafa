/** The content and size of a fake sandbox that starts from a snapshot. */
import type { RestoreSpec, SandboxSize, SandboxSpec } from '../../core/ports/driver.ts'
import { untilAborted } from '../../lib/until-aborted.ts'
import type { FakeContent } from './fake-content.ts'
import type { FakeSnapshot } from './fake-world.ts'

export const copyOf = ({ memory, files }: FakeContent): FakeContent => ({
  memory: new Map(memory),
  files: new Map(files),
})

/** A sandbox that consumes the snapshot runs on the files of the snapshot; any other gets a copy. */
export function contentFor(from: RestoreSpec | undefined, snapshot: FakeSnapshot | undefined): FakeContent {
  if (!snapshot) return { memory: new Map(), files: new Map() }
  const { memory, files } = copyOf(snapshot.content)
  return {
    files: from?.keepSnapshot ? files : snapshot.content.files,
    memory: from?.memory && snapshot.memory ? memory : new Map(),
  }
}

/** A sandbox that is restored with memory keeps the size of its snapshot. */
export function sizeFor(wanted: SandboxSpec, snapshot: FakeSnapshot | undefined): SandboxSize {
  return sizeOf(wanted.fromSnapshot?.memory && snapshot?.memory ? snapshot.spec : wanted)
}

export function sizeOf({ cpuCount, memoryMB, diskMB, gpuCount = 0 }: SandboxSize): SandboxSize {
  return { cpuCount, memoryMB, diskMB, ...(gpuCount > 0 && { gpuCount }) }
}

/** The folders of the root filesystem, the uppermost layer first. */
export const rootsOf = ({ rootFolder, lowerFolders = [] }: SandboxSpec) => [rootFolder, ...lowerFolders]

export const orAborted = <T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> =>
  signal ? untilAborted(work, signal) : work
