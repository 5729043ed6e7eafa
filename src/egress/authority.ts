/**
 * The certificate authority of this machine, with which the gate stands in for hosts whose requests get headers.
 * Its key is made at first need and leaves the data folder never; its certificate is installed in sandboxes.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Clock } from '../lib/clock.ts'
import { makeCertificate } from './certificates.ts'

export type Authority = {
  /** In PEM form, for the trust stores of sandboxes. */
  certificate(): Promise<string>
  /** What a server shows to pass for the host. */
  contextFor(name: string): Promise<SecureContext>
  /** For servers of one's own, in PEM form. */
  issue(name: string): Promise<{ key: string; cert: string }>
}

const dayMs = 24 * 60 * 60 * 1000
const authorityDays = 3650
const leafDays = 30
/** Clocks of sandboxes may be a little behind. */
const earlierMs = dayMs
const mostContexts = 1000

type Pair = { key: string; cert: string }

export function createAuthority(folder: string, clock: Clock): Authority {
  let loading: Promise<Pair> | undefined
  const load = () => {
    loading ??= loadOrMake(folder, clock).catch((error) => {
      loading = undefined
      throw error
    })
    return loading
  }
  // One key for all hosts: it proves nothing beyond this process, and making one costs more than signing.
  const leaf = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const leafKey = leaf.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
  const contexts = new Map<string, { context: SecureContext; until: number }>()

  const issue = async (name: string): Promise<Pair> => {
    const authority = await load()
    const now = clock.now()
    const cert = makeCertificate({
      subject: name,
      issuer: new X509Certificate(authority.cert).subject.replace(/^CN=/, ''),
      publicKey: leaf.publicKey,
      signer: createPrivateKey(authority.key),
      isAuthority: false,
      notBefore: now - earlierMs,
      notAfter: now + leafDays * dayMs,
    })
    return { key: leafKey, cert }
  }

  return {
    certificate: async () => (await load()).cert,
    issue,
    async contextFor(name) {
      const known = contexts.get(name)
      if (known && known.until > clock.now()) return known.context
      const context = createSecureContext({ ...(await issue(name)), minVersion: 'TLSv1.2' })
      contexts.delete(name)
      contexts.set(name, { context, until: clock.now() + (leafDays / 2) * dayMs })
      if (contexts.size > mostContexts) contexts.delete(contexts.keys().next().value!)
      return context
    },
  }
}

async function loadOrMake(folder: string, clock: Clock): Promise<Pair> {
  const file = join(folder, 'authority.pem')
  const kept = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  const pair = kept === null ? null : split(kept)
  if (pair && Date.parse(new X509Certificate(pair.cert).validTo) > clock.now() + leafDays * dayMs) return pair
  const made = make(clock)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  // Key and certificate in one file and under its name only when whole: there is never one without the other.
  await writeFile(`${file}.new`, made.key + made.cert, { mode: 0o600 })
  await rename(`${file}.new`, file)
  return made
}

function make(clock: Clock): Pair {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  // Told apart from the authorities of other machines, and of this one earlier.
  const subject = `Warren egress ${new Date(clock.now()).toISOString()}`
  const cert = makeCertificate({
    subject,
    issuer: subject,
    publicKey,
    signer: privateKey,
    isAuthority: true,
    notBefore: clock.now() - earlierMs,
    notAfter: clock.now() + authorityDays * dayMs,
  })
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string, cert }
}

function split(text: string): Pair {
  const at = text.indexOf('-----BEGIN CERTIFICATE-----')
  const pair = { key: text.slice(0, at), cert: text.slice(at) }
  const authority = new X509Certificate(pair.cert)
  if (!authority.publicKey.equals(createPublicKey(pair.key))) {
    throw new Error('the key and the certificate of the egress authority do not belong together')
  }
  return pair
}
