import type { SandboxDetail } from '../../../contract/rest/sandbox.ts'
import type { SandboxRef } from '../../browser/sandboxes.ts'

/** What every tab gets. */
export type SandboxTabProps = { detail: SandboxDetail; sandbox: SandboxRef; reload: () => Promise<void> }
