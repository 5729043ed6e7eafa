import type { SandboxDetail } from '../../../contract/rest/sandbox.ts'
import type { SandboxRef } from '../../browser/sandboxes.ts'

/** The properties of every tab. */
export type SandboxTabProps = { detail: SandboxDetail; sandbox: SandboxRef; reload: () => Promise<void> }
