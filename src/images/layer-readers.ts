/**
 * For whom an unpacked layer may be reused. Its digest is no secret, and an image may name any: so it is for those
 * who have fetched it, every byte, and for anybody once it was fetched without a password. One empty file each.
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
