/**
 * Makes the programs of a sandbox trust further certificate authorities. It writes the files itself, because the
 * tools for that differ between images, take long, or are missing.
 */
import { createHash, X509Certificate } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { AppError } from '../lib/app-error.ts'
import * as der from '../lib/der.ts'
import { pemCertificates } from '../lib/pem.ts'
import { javaTrustStore } from './java-trust-store.ts'

/** The tools of Debian and Alpine add every `.crt` file of this folder to the bundle when they rebuild it. */
const ownFolder = '/usr/local/share/ca-certificates'
const ownFile = `${ownFolder}/warren.pem`
const javaFile = `${ownFolder}/warren.jks`
/** The tools of Red Hat and Fedora add every certificate of this folder to the bundle. */
const anchorsFolder = '/etc/pki/ca-trust/source/anchors'
const hashedFolder = '/etc/ssl/certs'
/** The bundles of all trusted authorities in Debian, Fedora, SUSE and Alpine, and in distributions based on them. */
const bundles = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
] as const
const largestBundle = 16 * 1024 * 1024
/** OpenSSL numbers authorities whose subjects have the same hash. */
const maxOfOneHash = 100
const begin = '# Warren: begin\n'
const end = '# Warren: end\n'

/**
 * `pem` has the certificates of one or more authorities, and replaces those of an earlier call. Returns environment
 * variables that make programs with roots of their own use the system's bundle. It sets no variable for git, which uses
 * the system's bundle anyway, and whose variable would override a user's configuration.
 */
export function trustAuthorities(pem: string, root = '/'): Record<string, string> {
  const certificates = readCertificates(pem)
  const texts = certificates.map((certificate) => certificate.toString())
  const resolve = (path: string) => join(root, path)
  const bundle = addToBundles(texts.join(''), resolve)
  writeOwnFiles(texts, resolve)
  if (existsSync(resolve(hashedFolder))) for (const one of certificates) addByHash(one, resolve(hashedFolder))
  const variables = { NODE_EXTRA_CA_CERTS: ownFile }
  if (bundle === undefined) return variables
  const all = pemCertificates(readFileSync(resolve(bundle), 'latin1'))
  replaceFile(resolve(javaFile), javaTrustStore(all).toString('latin1'))
  return {
    ...variables,
    SSL_CERT_FILE: bundle,
    REQUESTS_CA_BUNDLE: bundle,
    PIP_CERT: bundle,
    CURL_CA_BUNDLE: bundle,
    CARGO_HTTP_CAINFO: bundle,
    JAVA_TOOL_OPTIONS: `-Djavax.net.ssl.trustStore=${javaFile}`,
  }
}

function readCertificates(pem: string): X509Certificate[] {
  try {
    const certificates = pemCertificates(pem).map((text) => new X509Certificate(text))
    if (certificates.length > 0 && certificates.every(({ ca }) => ca)) return certificates
  } catch {}
  throw new AppError('invalid_argument', 'caBundle must be the certificates of authorities, in PEM form')
}

/** Returns the bundle that programs should use. An image without a bundle gets one with Node's root certificates. */
function addToBundles(texts: string, resolve: (path: string) => string): string | undefined {
  const present = bundles.filter((path) => isBundle(resolve(path)))
  for (const path of present) addTo(realpathSync(resolve(path)), texts)
  const [usual] = bundles
  if (present.length > 0 || lstatSync(resolve(usual), { throwIfNoEntry: false })) return present[0]
  mkdirSync(dirname(resolve(usual)), { recursive: true })
  replaceFile(resolve(usual), `${rootCertificates.join('\n')}\n`)
  addTo(resolve(usual), texts)
  return usual
}

/** Writes one file for each authority, because the tools read one certificate per file, and one file with all. */
function writeOwnFiles(texts: readonly string[], resolve: (path: string) => string): void {
  mkdirSync(resolve(ownFolder), { recursive: true })
  replaceFile(resolve(ownFile), texts.join(''))
  if (existsSync(resolve(anchorsFolder)))
    replaceFile(join(resolve(anchorsFolder), 'warren.pem'), texts.join(''))
  const numbered = (index: number) => join(resolve(ownFolder), `warren-${index + 1}.crt`)
  for (const [index, text] of texts.entries()) replaceFile(numbered(index), text)
  for (let index = texts.length; existsSync(numbered(index)); index++) rmSync(numbered(index))
}

function addByHash(certificate: X509Certificate, folder: string): void {
  const hash = subjectHash(certificate)
  const paths = Array.from({ length: maxOfOneHash }, (_, number) => join(folder, `${hash}.${number}`))
  const free = paths.find((path) => !existsSync(path) || isOurs(path, certificate))
  if (free !== undefined) replaceFile(free, certificate.toString())
}

/** A renewed certificate of an authority has the same subject, and replaces the earlier one. */
function isOurs(path: string, { subject }: X509Certificate): boolean {
  if (!isBundle(path)) return false
  try {
    return new X509Certificate(readFileSync(path)).subject === subject
  } catch {
    return false
  }
}

/** The image, or root inside the sandbox, may have put anything at this path. */
function isBundle(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  return found?.isFile() === true && found.size <= largestBundle
}

/** Replaces the section that an earlier call has written, on this machine or on another. */
function addTo(path: string, text: string): void {
  const before = readFileSync(path, 'latin1')
  const [from, to] = [before.indexOf(begin), before.indexOf(end)]
  const rest = from >= 0 && to > from ? before.slice(0, from) + before.slice(to + end.length) : before
  const gap = rest === '' || rest.endsWith('\n') ? '' : '\n'
  replaceFile(path, `${rest}${gap}${begin}${text}${end}`)
}

function replaceFile(path: string, text: string): void {
  if (isBundle(path) && readFileSync(path, 'latin1') === text) return
  const fresh = `${path}.warren`
  rmSync(fresh, { recursive: true, force: true })
  writeFileSync(fresh, text, { encoding: 'latin1', mode: 0o644, flag: 'wx' })
  chmodSync(fresh, 0o644)
  renameSync(fresh, path)
}

/** The name under which OpenSSL looks for an authority: a hash over its subject in OpenSSL's canonical form. */
export function subjectHash(certificate: X509Certificate): string {
  const parts = der.partsOf(der.subjectOf(certificate.raw)).map((relative) => {
    const attributes = der.partsOf(relative).map((attribute) => {
      const [type, value] = der.partsOf(attribute)
      return der.sequence(type!, canonicalText(value!))
    })
    return der.set(...attributes.toSorted(Buffer.compare))
  })
  const digest = createHash('sha1').update(Buffer.concat(parts)).digest()
  return digest.readUInt32LE(0).toString(16).padStart(8, '0')
}

/** The text as UTF-8, in lower case, without needless spaces; OpenSSL changes only letters and spaces of ASCII. */
function canonicalText(value: der.Der): der.Der {
  const text = textTypes.get(value[0]!)?.(der.contentOf(value))
  if (text === undefined) return value
  const spaced = text.replace(/[ \t-\r]+/g, ' ').replace(/^ | $/g, '')
  return der.utf8(spaced.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()))
}

const oneByteEach = (bytes: Buffer) => bytes.toString('latin1')

/** Decoders by ASN.1 tag. OpenSSL does not change other types, except UniversalString, which nobody uses. */
const textTypes = new Map<number, (bytes: Buffer) => string>([
  [0x0c, (bytes) => bytes.toString()],
  ...[0x13, 0x14, 0x16, 0x1a].map((tag) => [tag, oneByteEach] as const),
  [0x1e, (bytes) => Buffer.from(bytes).swap16().toString('utf16le')],
])
