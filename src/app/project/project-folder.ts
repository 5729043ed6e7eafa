/** The folder of package.json, found from the sources and from the bundle below it. */
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'

export const projectFolder = dirname(findPackageJSON(import.meta.url)!)
export const sourcesFolder = join(projectFolder, 'src')
