import type { TemplateStore } from '../../template/template-store.ts'
import type { SandboxReader } from '../row/sandbox-store.ts'
import type { Quarantine } from './quarantine.ts'

/** What sandboxes, templates and the quarantine own. The build cache owns others, which can be made again. */
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
