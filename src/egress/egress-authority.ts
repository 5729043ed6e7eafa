/**
 * The certificate authority of this machine, with which the gate impersonates hosts whose requests get
 * headers. Its key is made on first use and never leaves the data folder; its certificate is installed in
 * sandboxes.
 */
import { createPublicKey, X509Certificate } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createSecureContext, type SecureContext } from 'node:tls'
import { type Certificate, issueCertificate, makeAuthority } from '../lib/certificates.ts'
import type { Clock } from '../lib/clock.ts'

export type EgressAuthority = {
  /** In PEM form, for the trust stores of sandboxes. */
  certificate(): Promise<string>
  /** The certificate with which the gate impersonates the host. */
  contextFor(name: string): Promise<SecureContext>
}

const dayMs = 24 * 60 * 60 * 1000
const authorityDays = 3650
const leafDays = 30
const maxContexts = 1000

export function createEgressAuthority(folder: string, clock: Clock): EgressAuthority {
  let loading: Promise<Certificate> | undefined
  const load = () => {
    loading ??= loadOrMake(folder, clock).catch((error) => {
      loading = undefined
      throw error
    })
    return loading
  }
  const contexts = new Map<string, { context: SecureContext; until: number }>()
  return {
    certificate: async () => (await load()).certificate,
    async contextFor(name) {
      const known = contexts.get(name)
      if (known && known.until > clock.now()) return known.context
      const { key, certificate } = issueCertificate(await load(), { names: [name], days: leafDays }, clock)
      const context = createSecureContext({ key, cert: certificate, minVersion: 'TLSv1.2' })
      contexts.delete(name)
      contexts.set(name, { context, until: clock.now() + (leafDays / 2) * dayMs })
      if (contexts.size > maxContexts) contexts.delete(contexts.keys().next().value!)
      return context
    },
  }
}

async function loadOrMake(folder: string, clock: Clock): Promise<Certificate> {
  const file = join(folder, 'authority.pem')
  const stored = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  const pair = stored === null ? null : split(stored)
  const needed = clock.now() + leafDays * dayMs
  if (pair && Date.parse(new X509Certificate(pair.certificate).validTo) > needed) return pair
  // The name distinguishes it from the authorities of other machines, and from earlier ones of this machine.
  const made = makeAuthority(`Warren egress ${new Date(clock.now()).toISOString()}`, authorityDays, clock)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  // Key and certificate are in one file, which gets its name when it is complete: there is never one without
  // the other.
  await writeFile(`${file}.new`, made.key + made.certificate, { mode: 0o600 })
  await rename(`${file}.new`, file)
  return made
}

function split(text: string): Certificate {
  const at = text.indexOf('-----BEGIN CERTIFICATE-----')
  const pair = { key: text.slice(0, at), certificate: text.slice(at) }
  if (!new X509Certificate(pair.certificate).publicKey.equals(createPublicKey(pair.key))) {
    throw new Error('the key and the certificate of the egress authority do not belong together')
  }
  return pair
}
