import { existsSync } from 'node:fs'
import { join } from 'node:path'

export const programFolders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** The path of a program, looked for in the folders of the system, whatever PATH says. */
export function findSystemProgram(name: string): string | undefined {
  return programFolders.map((folder) => join(folder, name)).find((path) => existsSync(path))
}
