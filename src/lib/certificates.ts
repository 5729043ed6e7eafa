/**
 * Makes certificate authorities and their certificates, as PEM text. Keys are P-256: every client accepts them, and making
 * one takes a fraction of a millisecond, so that one can be issued per connection.
 */
import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  X509Certificate,
} from 'node:crypto'
import { isIP } from 'node:net'
import { AppError } from './app-error.ts'
import { type Clock, systemClock } from './clock.ts'
import * as der from './der.ts'
import { randomHex } from './ids.ts'

export type Certificate = {
  /** PEM. */
  certificate: string
  /** PEM, PKCS #8. */
  key: string
}

export type Authority = Certificate

type Leaf = {
  /** Host names, `*.` in front for all names one label below. */
  names: readonly string[]
  /** IP addresses. */
  addresses?: readonly string[]
  days: number
  /** True if the certificate may also authenticate a client. */
  isClient?: boolean
}

const dayMs = 24 * 3_600_000
/** Other machines' clocks may be behind ours. */
const backdateMs = 3_600_000
const serverAuth = der.objectID('1.3.6.1.5.5.7.3.1')
const clientAuth = der.objectID('1.3.6.1.5.5.7.3.2')
const ecdsaWithSHA256 = der.sequence(der.objectID('1.2.840.10045.4.3.2'))

export function makeAuthority(name: string, days = 3650, clock: Clock = systemClock): Authority {
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const subject = commonName(name)
  return signed(pair, pair.privateKey, subject, subject, { days, clock }, [
    extension('2.5.29.19', true, der.sequence(der.yes, der.integer(Buffer.from([0])))),
    // Signing certificates, and nothing else.
    extension('2.5.29.15', true, der.bits(Buffer.from([0b0000_0100]), 2)),
    extension('2.5.29.14', false, der.octets(keyIDOf(pair.publicKey))),
  ])
}

export function issueCertificate(
  authority: Authority,
  { names, addresses = [], days, isClient = false }: Leaf,
  clock: Clock = systemClock,
): Certificate {
  const alternatives = [...names.map(dnsName), ...addresses.map(ipAddress)]
  if (alternatives.length === 0) throw invalidName('A certificate needs a name or an address.')
  const issuer = new X509Certificate(authority.certificate)
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const subject = commonName(names[0] ?? addresses[0]!)
  const issuerKey = createPrivateKey(authority.key)
  // The original bytes, because verifiers compare issuer and subject byte by byte.
  return signed(pair, issuerKey, der.subjectOf(issuer.raw), subject, { days, clock }, [
    extension('2.5.29.19', true, der.sequence()),
    extension('2.5.29.15', true, der.bits(Buffer.from([0b1000_0000]), 7)),
    extension('2.5.29.37', false, der.sequence(...(isClient ? [serverAuth, clientAuth] : [serverAuth]))),
    extension('2.5.29.17', false, der.sequence(...alternatives)),
    extension('2.5.29.14', false, der.octets(keyIDOf(pair.publicKey))),
    extension('2.5.29.35', false, der.sequence(der.implicit(0, keyIDOf(issuer.publicKey)))),
  ])
}

type KeyPair = { publicKey: KeyObject; privateKey: KeyObject }
type Lifetime = { days: number; clock: Clock }

function signed(
  pair: KeyPair,
  issuerKey: KeyObject,
  issuer: der.Der,
  subject: der.Der,
  { days, clock }: Lifetime,
  extensions: der.Der[],
): Certificate {
  const now = clock.now()
  // The first bits keep the number positive and its length fixed.
  const serial = Buffer.from(`4${randomHex(16).slice(1)}`, 'hex')
  const body = der.sequence(
    der.tagged(0, der.integer(Buffer.from([2]))),
    der.integer(serial),
    ecdsaWithSHA256,
    issuer,
    der.sequence(der.time(now - backdateMs), der.time(now + days * dayMs)),
    subject,
    pair.publicKey.export({ type: 'spki', format: 'der' }),
    der.tagged(3, der.sequence(...extensions)),
  )
  const whole = der.sequence(body, ecdsaWithSHA256, der.bits(sign('sha256', body, issuerKey)))
  return {
    certificate: new X509Certificate(whole).toString(),
    key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

function extension(id: string, critical: boolean, content: der.Der): der.Der {
  return der.sequence(der.objectID(id), ...(critical ? [der.yes] : []), der.octets(content))
}

/** Cuts the name to 64 characters, the maximum of this field. Verifiers read the alternative names of a leaf instead. */
function commonName(name: string): der.Der {
  return der.sequence(der.set(der.sequence(der.objectID('2.5.4.3'), der.utf8(name.slice(0, 64)))))
}

function keyIDOf(key: KeyObject): Buffer {
  const [, bits] = der.partsOf(key.export({ type: 'spki', format: 'der' }))
  return createHash('sha1').update(der.contentOf(bits!).subarray(1)).digest()
}

function dnsName(name: string): der.Der {
  if (
    !/^(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/i.test(name) ||
    name.length > 253
  )
    throw invalidName(`A certificate cannot be made for '${name}': that is no host name.`)
  return der.implicit(2, Buffer.from(name.toLowerCase()))
}

function ipAddress(text: string): der.Der {
  return der.implicit(7, isIP(text) === 4 ? Buffer.from(text.split('.').map(Number)) : ipv6Bytes(text))
}

function ipv6Bytes(text: string): Buffer {
  if (isIP(text) !== 6 || text.includes('%'))
    throw invalidName(`A certificate cannot be made for '${text}': that is no IP address.`)
  // The URL parser writes any spelling of an address as hexadecimal groups.
  const [head = '', tail] = new URL(`http://[${text}]`).hostname.slice(1, -1).split('::')
  const groups = (part: string | undefined) => (part ? part.split(':') : [])
  const [before, after] = [groups(head), groups(tail)]
  const all = [...before, ...Array<string>(8 - before.length - after.length).fill('0'), ...after]
  return Buffer.from(all.map((group) => group.padStart(4, '0')).join(''), 'hex')
}

function invalidName(message: string): AppError {
  return new AppError('invalid_argument', message)
}
