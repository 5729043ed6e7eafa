/** What a release brings, so that its first start needs no network. A clone has none of it. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { projectFolder } from '../project/project-folder.ts'

/** Below the project's folder, as all of these. */
export const shippedFolder = 'shipped'
/** Packages of npm for a base template that is made on the machine. */
export const shippedPackages = 'shipped/packages'
/** Programs of the system with their own libraries; those of the machine come first. */
export const shippedPrograms = 'shipped/programs'
export const shippedBase = (hash: string): string => `shipped/base-${hash}.tar.zst`

/** Whether this Warren is a release with everything in it. */
export const isRelease = (): boolean => findShipped(shippedFolder) !== undefined

/** The path of a shipped file. Undefined: this Warren does not have it. */
export function findShipped(path: string): string | undefined {
  const found = join(projectFolder, path)
  return existsSync(found) ? found : undefined
}
