import type { TemplateStore } from '../../template/template-store.ts'
import type { SandboxReader } from '../row/sandbox-store.ts'
import type { Quarantine } from './quarantine.ts'

/**
 * Names of the snapshots that sandboxes, templates and the quarantine own. Those of the build cache are left
 * out, because they can be made again.
 */
export async function snapshotNamesInUse(stores: {
  sandboxes: SandboxReader
  templates: TemplateStore
  quarantine: Pick<Quarantine, 'names'>
}): Promise<string[]> {
  return [
    ...(await stores.sandboxes.listSnapshotNames()),
    ...(await stores.templates.listSnapshotNames()),
    ...(await stores.quarantine.names()),
  ]
}
