/**
 * The record of an unpacked layer: `layer.json` beside its `root`. Only a missing file means a missing layer.
 */
import { readFileSync, statSync } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { AppError } from '../lib/app-error.ts'
import { isMissing } from '../lib/if-present.ts'

export type LocalLayer = { bytes: number; opaqueRoot: boolean; ownerShift: number }

/**
 * `unsyncedSince`: the boot of the machine in which the layer was written, if it may not have reached the
 * disk.
 */
export type LayerRecord = LocalLayer & { unsyncedSince?: string }

/** Undefined if the record or the root is missing. Throws if it is unknown whether they exist. */
export function readRecord(layerFolder: string): LayerRecord | undefined {
  try {
    const text = readFileSync(recordFile(layerFolder), 'utf8')
    const isWhole = statSync(join(layerFolder, 'root')).isDirectory()
    return isWhole ? (JSON.parse(text) as LayerRecord) : undefined
  } catch (error) {
    if (isMissing(error)) return undefined
    const name = basename(layerFolder)
    const message = `The layer ${name.slice(0, 12)} cannot be read and is left as it is. Check ${layerFolder}.`
    throw new AppError('internal', message, { cause: error })
  }
}

/** Writes atomically, also against a power cut. */
export async function writeRecord(layerFolder: string, record: LayerRecord): Promise<void> {
  const beside = `${recordFile(layerFolder)}.new`
  const file = await open(beside, 'w')
  try {
    await file.writeFile(JSON.stringify(record))
    await file.datasync()
  } finally {
    await file.close()
  }
  await rename(beside, recordFile(layerFolder))
}

export const recordFile = (layerFolder: string): string => join(layerFolder, 'layer.json')
