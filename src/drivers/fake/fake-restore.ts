/** What a fake sandbox gets from the snapshot that it is started from. */
import type { RestoreSpec, SandboxSize, SandboxSpec } from '../../core/ports/driver.ts'
import type { FakeContent } from './fake-content.ts'
import type { FakeSnapshot } from './fake-world.ts'

export const copyOf = ({ memory, files }: FakeContent): FakeContent => ({
  memory: new Map(memory),
  files: new Map(files),
})

/** A sandbox that consumes the snapshot runs on its very files. */
export function contentFor(from: RestoreSpec | undefined, snapshot: FakeSnapshot | undefined): FakeContent {
  if (!snapshot) return { memory: new Map(), files: new Map() }
  const { memory, files } = copyOf(snapshot.content)
  return {
    files: from?.keep ? files : snapshot.content.files,
    memory: from?.memory && snapshot.memory ? memory : new Map(),
  }
}

/** Processes that go on keep the size that they were saved with. */
export function sizeFor(wanted: SandboxSpec, snapshot: FakeSnapshot | undefined): SandboxSize {
  return sizeOf(wanted.fromSnapshot?.memory && snapshot?.memory ? snapshot.spec : wanted)
}

export function sizeOf({ cpuCount, memoryMB, diskMB, gpuCount = 0 }: SandboxSize): SandboxSize {
  return { cpuCount, memoryMB, diskMB, ...(gpuCount > 0 && { gpuCount }) }
}
