/** The certificate of ACME in the data folder, from where the server uses it, and what the doctor reads of it. */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { errorText } from '../../lib/app-error.ts'
import { ifPresent } from '../../lib/if-present.ts'
import type { PemPair } from './acme-plan.ts'

/** `retryAt` in milliseconds. */
export type AcmeTrouble = { message: string; failures: number; retryAt: number }

export type AcmeFiles = { cert: string; key: string }

export async function readPair({ cert, key }: AcmeFiles): Promise<PemPair | undefined> {
  const [certText, keyText] = await Promise.all([cert, key].map((path) => ifPresent(readFile(path, 'utf8'))))
  return certText === undefined || keyText === undefined ? undefined : { cert: certText, key: keyText }
}

export async function writePair(files: AcmeFiles, pair: PemPair): Promise<void> {
  await replace(files.key, pair.key)
  await replace(files.cert, pair.cert)
}

/** Undefined: there is none. */
export async function writeTrouble(files: AcmeFiles, trouble: AcmeTrouble | undefined): Promise<void> {
  await replace(troubleFile(files.cert), JSON.stringify(trouble ?? null))
}

export async function readTrouble(cert: string): Promise<AcmeTrouble | undefined> {
  const text = await ifPresent(readFile(troubleFile(cert), 'utf8'))
  try {
    return text === undefined ? undefined : (JSON.parse(text) ?? undefined)
  } catch (error) {
    throw new Error(`${troubleFile(cert)} cannot be read: ${errorText(error)}`)
  }
}

const troubleFile = (cert: string): string => join(dirname(cert), 'trouble.json')

async function replace(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await writeFile(`${path}.partial`, text, { mode: 0o600 })
  await rename(`${path}.partial`, path)
}
