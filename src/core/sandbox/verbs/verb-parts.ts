import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import type { LogEntry } from '../../ports/logs.ts'
import type { DiskGuard } from '../capacity/disk-guard.ts'
import type { HeldSandboxes } from '../capacity/held-sandboxes.ts'
import type { Sandbox } from '../row/sandbox.ts'
import type { SandboxReader, SandboxStore } from '../row/sandbox-store.ts'
import type { SandboxTurns } from '../row/sandbox-turns.ts'

/** What every verb that leaves a sandbox running or paused works with. */
export type VerbParts = {
  /** Rows change through `turns`; only the end of a sandbox's time and the claim of a failed create do without one. */
  sandboxes: SandboxReader & Pick<SandboxStore, 'setEnd' | 'releaseClaim'>
  turns: SandboxTurns
  diskGuard: Pick<DiskGuard, 'require' | 'requireForSnapshot'>
  held: Pick<HeldSandboxes, 'whyHeld'>
  clock: Clock
  /** Adds to the log of a sandbox, without anybody waiting for it. */
  appendLog: (sandboxID: string, entry: LogEntry) => void
  /** Called with each sandbox that runs, or runs again. */
  onRunning: (sandbox: Sandbox) => void
  /** Called when the snapshot of a paused sandbox or of a template is on the disk, and its row says so. */
  onKept: () => void
  log: Log
}
