/** Whether the object store of the settings answers. */
import { errorText } from '../../lib/app-error.ts'
import type { Config } from '../config.ts'
import { openObjects, requireAnswer } from '../open-objects.ts'
import { type Finding, type MachineCheck, ok, warn } from './finding.ts'

export const objectStoreChecks: readonly MachineCheck[] = [{ name: 'object store', look: lookAtStore }]

async function lookAtStore(config: Config): Promise<Finding> {
  const opened = await openObjects(config)
  if (!opened) return ok('none is set')
  try {
    await requireAnswer(opened)
    return ok(`${config.objectStore} answers`)
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
