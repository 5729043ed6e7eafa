import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import type { LogEntry } from '../../ports/logs.ts'
import type { DiskGuard } from '../capacity/disk-guard.ts'
import type { FrozenSandboxes } from '../capacity/frozen-sandboxes.ts'
import type { Sandbox } from '../row/sandbox.ts'
import type { SandboxReader, SandboxStore } from '../row/sandbox-store.ts'
import type { SandboxTurns } from '../row/sandbox-turns.ts'
import type { MemoryArrivals } from './arrivals.ts'

/** Parts that all verbs need which leave a sandbox running or paused. */
export type VerbParts = {
  /** Rows change through `turns`, except for a sandbox's timeout and the claim of a failed create. */
  sandboxes: SandboxReader & Pick<SandboxStore, 'setEnd' | 'releaseClaim'>
  turns: SandboxTurns
  diskGuard: Pick<DiskGuard, 'require' | 'requireForSnapshot'>
  /** Rejects a new sandbox of a team that has used up its budget. */
  requireBudget: (teamID: string) => void
  frozen: Pick<FrozenSandboxes, 'whyFrozen'>
  arrivals: MemoryArrivals
  clock: Clock
  /** Adds to the log of a sandbox in the background. */
  appendLog: (sandboxID: string, entry: LogEntry) => void
  /** Called with each sandbox that starts to run, also after a resume or a copy. */
  onRunning: (sandbox: Sandbox) => void
  /** Called when the snapshot of a paused sandbox or of a template is on the disk and its row says so. */
  onSnapshotTaken: () => void
  log: Log
}
