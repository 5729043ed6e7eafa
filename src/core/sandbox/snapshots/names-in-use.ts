import type { TemplateStore } from '../../template/template-store.ts'
import type { SandboxReader } from '../row/sandbox-store.ts'
import type { Quarantine } from './quarantine.ts'
import { startSnapshotName } from './snapshot-names.ts'

/**
 * Names of the snapshots that sandboxes, templates and the quarantine own, and of those that builds of this node will own if
 * they become ready. Those of the build cache are left out, because they can be made again.
 */
export async function snapshotNamesInUse(stores: {
  sandboxes: SandboxReader
  templates: TemplateStore
  quarantine: Pick<Quarantine, 'names'>
}): Promise<string[]> {
  // Read before the names of ready builds, so that a build that becomes ready in between is among them.
  const underWay = await stores.templates.listBuildsIn(['building'], Number.MAX_SAFE_INTEGER)
  return [
    ...underWay.map(startSnapshotName),
    ...(await stores.sandboxes.listSnapshotNames()),
    ...(await stores.templates.listSnapshotNames()),
    ...(await stores.quarantine.names()),
  ]
}
