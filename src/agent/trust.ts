/**
 * Makes the programs of a sandbox trust an authority of the machine it runs on. By hand: the tools that images bring
 * for it differ, take long, or are missing.
 */
import { createHash, X509Certificate } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { AppError } from '../lib/app-error.ts'
import * as der from '../lib/der.ts'

const ownFile = '/usr/local/share/ca-certificates/warren-egress.crt'
const hashedFolder = '/etc/ssl/certs'
/** Where Debian and its like, Fedora and its like, SUSE and Alpine keep all they trust. */
const bundles = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]
const largestBundle = 16 * 1024 * 1024
const [begin, end] = ['# Warren: begin\n', '# Warren: end\n']

/** Gives the variables that lead programs with roots of their own to the system's. */
export function trustAuthority(pem: string, root = '/'): Record<string, string> {
  const certificate = readCertificate(pem)
  const text = certificate.toString()
  const place = (path: string) => join(root, path)
  const present = bundles.filter((path) => isBundle(place(path)))
  for (const path of present) addTo(realpathSync(place(path)), text)
  mkdirSync(dirname(place(ownFile)), { recursive: true })
  replaceFile(place(ownFile), text)
  if (existsSync(place(hashedFolder))) {
    replaceFile(join(place(hashedFolder), `${subjectHash(certificate)}.0`), text)
  }
  const [bundle] = present
  return {
    NODE_EXTRA_CA_CERTS: ownFile,
    // Without any roots of the system they had better stay with their own.
    ...(bundle && { SSL_CERT_FILE: bundle, REQUESTS_CA_BUNDLE: bundle }),
  }
}

function readCertificate(pem: string): X509Certificate {
  try {
    const certificate = new X509Certificate(pem)
    if (certificate.ca) return certificate
  } catch {}
  throw new AppError('invalid_argument', 'caBundle must be the certificate of an authority, in PEM form')
}

/** What is there was made by the image, or by who is root inside: it may be anything. */
function isBundle(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  return found?.isFile() === true && found.size <= largestBundle
}

/** In place of one that an earlier machine or time has left. */
function addTo(path: string, text: string): void {
  const before = readFileSync(path, 'latin1')
  const [from, to] = [before.indexOf(begin), before.indexOf(end)]
  const rest = from >= 0 && to > from ? before.slice(0, from) + before.slice(to + end.length) : before
  const gap = rest === '' || rest.endsWith('\n') ? '' : '\n'
  const after = `${rest}${gap}${begin}${text}${end}`
  if (after !== before) replaceFile(path, after)
}

function replaceFile(path: string, text: string): void {
  const fresh = `${path}.warren`
  writeFileSync(fresh, text, { encoding: 'latin1', mode: 0o644 })
  chmodSync(fresh, 0o644)
  renameSync(fresh, path)
}

/** The name under which OpenSSL looks for an authority: a hash over its subject in lower case. */
export function subjectHash(certificate: X509Certificate): string {
  const subject = der.partsOf(der.partsOf(certificate.raw)[0]!)[5]!
  const parts = der.partsOf(subject).map((relative) => {
    const attributes = der.partsOf(relative).map((attribute) => {
      const [type, value] = der.partsOf(attribute)
      const text = der.contentOf(value!).toString().trim().replace(/\s+/g, ' ')
      return der.sequence(type!, der.utf8(text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())))
    })
    return der.set(...attributes)
  })
  const digest = createHash('sha1').update(Buffer.concat(parts)).digest()
  return digest.readUInt32LE(0).toString(16).padStart(8, '0')
}
