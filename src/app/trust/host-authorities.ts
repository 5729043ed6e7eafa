/**
 * The certificate authorities that this machine trusts beyond the usual ones, such as that of a proxy which
 * inspects TLS. The usual ones are Mozilla's, as Node has them and as Debian's package ca-certificates has them.
 */
import { X509Certificate } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { type Clock, systemClock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { pemCertificates } from '../../lib/pem.ts'
import { trustFiles } from '../config/config.ts'

/** The bundles of Debian, Red Hat and Alpine, and where Debian's users put authorities before they are in the bundle. */
const systemBundles = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/cert.pem',
]
const localFolder = '/usr/local/share/ca-certificates'
const usualFolder = '/usr/share/ca-certificates'

type TrustFolders = { files: readonly string[]; usualFolder: string; clock: Clock }

export function hostAuthorities(folders: Partial<TrustFolders> = {}): X509Certificate[] {
  const { clock = systemClock } = folders
  const files = folders.files ?? [...systemBundles, ...certificatesBelow(localFolder), ...trustFiles()]
  const known = new Set(
    [
      ...rootCertificates,
      ...certificatesBelow(folders.usualFolder ?? usualFolder).flatMap(certificatesIn),
    ].map((pem) => read(pem)?.fingerprint256),
  )
  const found = new Map<string, X509Certificate>()
  for (const pem of files.flatMap(certificatesIn)) {
    const certificate = read(pem)
    if (!certificate?.ca || known.has(certificate.fingerprint256)) continue
    if (Date.parse(certificate.validTo) > clock.now()) found.set(certificate.fingerprint256, certificate)
  }
  return [...found.values()]
}

/** One name for each authority, for a person. */
export const authorityNames = (authorities: readonly X509Certificate[]): string[] =>
  authorities.map(({ subject }) => /^(?:CN|O)=(.*)$/m.exec(subject)?.[1] ?? subject.replaceAll('\n', ', '))

export function logHostAuthorities(log: Log): void {
  const authorities = authorityNames(hostAuthorities())
  if (authorities.length > 0)
    log.info({ authorities }, 'builds and sandboxes trust these authorities of this machine')
  else log.warn({}, 'WARREN_EXTRA_CA is host, but this machine trusts no authority beyond the usual ones')
}

/** A file that is not there, or that this process may not read, holds nothing that it could offer. */
function certificatesIn(path: string): string[] {
  try {
    return pemCertificates(readFileSync(path, 'utf8'))
  } catch {
    return []
  }
}

function certificatesBelow(folder: string): string[] {
  try {
    const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    return names.filter((name) => name.endsWith('.crt')).map((name) => join(folder, name))
  } catch {
    return []
  }
}

function read(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem)
  } catch {
    return undefined
  }
}
