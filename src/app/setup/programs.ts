import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { findShipped, shippedPrograms } from './shipped.ts'

export const programFolders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** The path of a program, looked for in the folders of the system, whatever PATH says, and then in those of a release. */
export function findSystemProgram(name: string): string | undefined {
  const ofMachine = programFolders.map((folder) => join(folder, name)).find((path) => existsSync(path))
  return ofMachine ?? findShipped(`${shippedPrograms}/bin/${name}`)
}
