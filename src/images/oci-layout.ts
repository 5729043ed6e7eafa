/** An OCI layout folder as the source of an image: works without a network. The operator chose the folder. */
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../lib/app-error.ts'
import { isDigest } from './digest.ts'
import type { Fetched, ImageSource } from './image-source.ts'
import { type IndexEntry, parseIndex, parseJSON } from './manifest.ts'

const nameAnnotations = ['org.opencontainers.image.ref.name', 'io.containerd.image.name']
const readSize = 256 * 1024

/** `names`: possible names of the image in the folder, best first. */
export function openLayout(folder: string, names: readonly string[]): ImageSource {
  const pathOf = (digest: string) => join(folder, 'blobs', ...digest.split(':'))
  const missing = (what: string, cause?: unknown) =>
    new AppError('not_found', `The image folder ${folder} has ${what}.`, { cause })

  async function document(digest: string): Promise<Fetched> {
    const bytes = await readFile(pathOf(digest)).catch((error) => {
      throw missing(`no image ${digest}`, error)
    })
    return { bytes, mediaType: '' }
  }

  return {
    async document(digest) {
      if (digest !== undefined) return document(digest)
      const index = await readFile(join(folder, 'index.json')).catch((error) => {
        throw missing('no index.json: it is not an OCI layout', error)
      })
      const entries = parseIndex(folder, parseJSON(folder, index))
      const chosen = choose(entries, names)
      if (!chosen) throw missing(`no image ${names[0]}; there is: ${listed(entries)}`)
      return document(chosen.digest)
    },
    async blob(digest, offset) {
      const file = await open(pathOf(digest)).catch((error) => {
        throw missing(`lost the part ${digest}`, error)
      })
      return file.createReadStream({ start: offset, highWaterMark: readSize })
    },
    close() {},
  }
}

function choose(entries: readonly IndexEntry[], names: readonly string[]): IndexEntry | undefined {
  for (const name of names) {
    const found = entries.find((entry) =>
      isDigest(name) ? entry.digest === name : namesOf(entry).includes(name),
    )
    if (found) return found
  }
  const [only] = entries
  return entries.length === 1 && only && namesOf(only).length === 0 ? only : undefined
}

const namesOf = ({ annotations }: IndexEntry): string[] =>
  nameAnnotations.map((key) => annotations[key]).filter((name) => typeof name === 'string')

function listed(entries: readonly IndexEntry[]): string {
  return entries.flatMap(namesOf).slice(0, 20).join(', ') || 'none with a name'
}
