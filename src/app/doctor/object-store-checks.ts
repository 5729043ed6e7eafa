/** Whether the object store of the settings answers. */
import { AdminClient } from '../../cli/admin-client.ts'
import { errorText, isAppError } from '../../lib/app-error.ts'
import { findServer } from '../commands/find-server.ts'
import type { Config } from '../config/config.ts'
import { dataPaths } from '../data/data-folder.ts'
import { type Finding, ok, warn } from '../setup/finding.ts'
import { whyOtherStore } from '../storage/guard-objects.ts'
import { openObjects, requireAnswer } from '../storage/open-objects.ts'
import type { MachineCheck } from './machine-check.ts'

export const objectStoreChecks: readonly MachineCheck[] = [{ name: 'object store', look: lookAtStore }]

async function lookAtStore(config: Config): Promise<Finding> {
  const opened = await openObjects(config)
  if (!opened) return ok('none is set')
  try {
    await requireAnswer(opened)
    const why = await whyOtherStore(opened, dataPaths(config.dataDir))
    if (why !== undefined)
      return warn(
        `${config.objectStore} ${why}, and is not what this machine used before`,
        'Warren does not use it. Set WARREN_OBJECT_STORE to the place that all machines of the cluster use; if the bucket was replaced on purpose, docs/object-store.md says what to do.',
      )
    return ok(`${config.objectStore} answers${await waiting(config)}`)
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? ` (${errorText(error.cause)})` : ''
    return warn(
      `${config.objectStore}: ${errorText(error)}${cause}`,
      'Warren runs without it, and only this machine can resume its sandboxes. Check WARREN_OBJECT_STORE_ENDPOINT, and run the doctor with the AWS variables of the service.',
    )
  } finally {
    await opened.close()
  }
}

/** What the Warren that runs here has not uploaded yet. Until then only this machine can use it. */
async function waiting(config: Config): Promise<string> {
  const server = await findServer(config).catch((error) => {
    if (isAppError(error, 'unavailable')) return undefined
    throw error
  })
  const { objectStore } = server ? await new AdminClient(server.access).describeMachine() : {}
  if (!objectStore) return ''
  const { waitingTemplates, waitingSandboxes, onlyHere } = objectStore
  if (waitingTemplates + waitingSandboxes === 0) return ' and has everything of this machine'
  const localOnly = onlyHere > 0 ? `; ${onlyHere} of them can be used on this machine only` : ''
  return `; not uploaded yet: ${waitingTemplates} template builds, ${waitingSandboxes} paused sandboxes${localOnly}`
}
