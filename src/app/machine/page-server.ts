/** Finds out whether sandboxes can start on this machine while their memory still arrives from the object store. */
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { probePageServer } from '../../drivers/oci/snapshot/page-server.ts'
import { errorText } from '../../lib/app-error.ts'
import type { Config } from '../config/config.ts'
import { projectFolder } from '../project/project-folder.ts'

const pageServerProgram = join(projectFolder, `native/built/page-server-${process.arch}`)

/** Returns the program that serves the memory; undefined if that does not work here, or is not needed. */
export async function choosePageServer(
  { objectStore, earlyResumes }: Pick<Config, 'objectStore' | 'earlyResumes'>,
  dataFolder: string,
  log: (message: string) => void,
): Promise<string | undefined> {
  if (objectStore === null || earlyResumes === 'no') return undefined
  const problem = await pageServerProblem(dataFolder)
  if (problem === undefined) return pageServerProgram
  log(`Sandboxes from the object store start only when all their memory is on this machine: ${problem}`)
  return undefined
}

/** Why memory cannot arrive while a sandbox runs here. Undefined: it can. */
async function pageServerProblem(dataFolder: string): Promise<string | undefined> {
  const folder = await mkdtemp(join(dataFolder, 'pages-'))
  try {
    await probePageServer(pageServerProgram, folder)
    return undefined
  } catch (error) {
    return errorText(error)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
