/**
 * Records who may reuse an unpacked layer. Its digest is no secret, and an image may name any digest: so only
 * teams that have fetched every byte of it may, or anybody if it was fetched without credentials. One empty
 * file for each reader.
 */
import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Stands for every reader. */
export const anybody = ''

export async function allowReader(layerFolder: string, reader: string): Promise<void> {
  await mkdir(join(layerFolder, 'for'), { recursive: true, mode: 0o700 })
  await writeFile(join(layerFolder, 'for', nameOf(reader)), '')
}

export function isReader(layerFolder: string, reader: string): boolean {
  const isThere = (file: string) => statSync(file, { throwIfNoEntry: false }) !== undefined
  return [anybody, reader].some((one) => isThere(join(layerFolder, 'for', nameOf(one))))
}

const nameOf = (reader: string): string =>
  reader === anybody ? 'anybody' : createHash('sha256').update(reader).digest('hex')
