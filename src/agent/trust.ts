/**
 * Makes the programs of a sandbox trust authorities besides those of its image. By hand: the tools that images bring
 * for it differ, take long, or are missing.
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

/** Debian's and Alpine's tools add every `.crt` of it to the bundle whenever they make it anew. */
const ownFolder = '/usr/local/share/ca-certificates'
const ownFile = `${ownFolder}/warren.pem`
const javaFile = `${ownFolder}/warren.jks`
/** Where the tools of Red Hat's family look for the same. */
const anchorsFolder = '/etc/pki/ca-trust/source/anchors'
const hashedFolder = '/etc/ssl/certs'
/** Where Debian and its like, Fedora and its like, SUSE and Alpine keep all they trust. */
const bundles = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
] as const
const largestBundle = 16 * 1024 * 1024
/** OpenSSL numbers authorities whose subjects have the same hash. */
const mostOfOneHash = 100
const [begin, end] = ['# Warren: begin\n', '# Warren: end\n']

/**
 * `pem` holds the certificates of one or more authorities, in place of those given before. Gives the variables that
 * lead programs with roots of their own to the system's. git has a variable too, but reads the system's anyway, and the
 * variable would overrule what a user has configured.
 */
export function trustAuthorities(pem: string, root = '/'): Record<string, string> {
  const certificates = readCertificates(pem)
  const texts = certificates.map((certificate) => certificate.toString())
  const place = (path: string) => join(root, path)
  const bundle = addToBundles(texts.join(''), place)
  writeOwnFiles(texts, place)
  if (existsSync(place(hashedFolder))) for (const one of certificates) addByHash(one, place(hashedFolder))
  const variables = { NODE_EXTRA_CA_CERTS: ownFile }
  if (bundle === undefined) return variables
  const all = pemCertificates(readFileSync(place(bundle), 'latin1'))
  replaceFile(place(javaFile), javaTrustStore(all).toString('latin1'))
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

/** Gives the bundle to lead programs to. An image without any gets one that begins with Node's roots. */
function addToBundles(texts: string, place: (path: string) => string): string | undefined {
  const present = bundles.filter((path) => isBundle(place(path)))
  for (const path of present) addTo(realpathSync(place(path)), texts)
  const [usual] = bundles
  if (present.length > 0 || lstatSync(place(usual), { throwIfNoEntry: false })) return present[0]
  mkdirSync(dirname(place(usual)), { recursive: true })
  replaceFile(place(usual), `${rootCertificates.join('\n')}\n`)
  addTo(place(usual), texts)
  return usual
}

/** One file for each authority, because the tools take one from each; and one with all of them. */
function writeOwnFiles(texts: readonly string[], place: (path: string) => string): void {
  mkdirSync(place(ownFolder), { recursive: true })
  replaceFile(place(ownFile), texts.join(''))
  if (existsSync(place(anchorsFolder))) replaceFile(join(place(anchorsFolder), 'warren.pem'), texts.join(''))
  const numbered = (index: number) => join(place(ownFolder), `warren-${index + 1}.crt`)
  for (const [index, text] of texts.entries()) replaceFile(numbered(index), text)
  for (let index = texts.length; existsSync(numbered(index)); index++) rmSync(numbered(index))
}

function addByHash(certificate: X509Certificate, folder: string): void {
  const hash = subjectHash(certificate)
  const paths = Array.from({ length: mostOfOneHash }, (_, number) => join(folder, `${hash}.${number}`))
  const free = paths.find((path) => !existsSync(path) || isOurs(path, certificate))
  if (free !== undefined) replaceFile(free, certificate.toString())
}

/** An authority that was renewed has the subject of the one before and takes its place. */
function isOurs(path: string, { subject }: X509Certificate): boolean {
  if (!isBundle(path)) return false
  try {
    return new X509Certificate(readFileSync(path)).subject === subject
  } catch {
    return false
  }
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

/** As UTF-8, in lower case, without needless spaces; of both, OpenSSL knows those of ASCII alone. */
function canonicalText(value: der.Der): der.Der {
  const text = textTypes.get(value[0]!)?.(der.contentOf(value))
  if (text === undefined) return value
  const spaced = text.replace(/[ \t-\r]+/g, ' ').replace(/^ | $/g, '')
  return der.utf8(spaced.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()))
}

const oneByteEach = (bytes: Buffer) => bytes.toString('latin1')

/** By tag. OpenSSL leaves any other type as it is, but for UniversalString, which nobody uses. */
const textTypes = new Map<number, (bytes: Buffer) => string>([
  [0x0c, (bytes) => bytes.toString()],
  ...[0x13, 0x14, 0x16, 0x1a].map((tag) => [tag, oneByteEach] as const),
  [0x1e, (bytes) => Buffer.from(bytes).swap16().toString('utf16le')],
])
