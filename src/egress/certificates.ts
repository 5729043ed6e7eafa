/** X.509 certificates (RFC 5280) with P-256 keys: the little DER that an authority of one level needs. */
import { createHash, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { randomHex } from '../lib/ids.ts'

export type CertificateRequest = {
  /** Common name; for a host also its one alternative name. */
  subject: string
  issuer: string
  publicKey: KeyObject
  /** Private key of the issuer. */
  signer: KeyObject
  isAuthority: boolean
  notBefore: number
  notAfter: number
}

const oids = {
  commonName: '550403',
  ecdsaWithSha256: '2a8648ce3d040302',
  basicConstraints: '551d13',
  keyUsage: '551d0f',
  extendedKeyUsage: '551d25',
  serverAuth: '2b06010505070301',
  subjectAltName: '551d11',
  subjectKeyIdentifier: '551d0e',
  authorityKeyIdentifier: '551d23',
}

const keyCertSignAndCrlSign = Buffer.from([1, 0b0000_0110])
const digitalSignature = Buffer.from([7, 0b1000_0000])
/** Longest that a common name may be; the alternative name is what clients read. */
const longestCommonName = 64

export function makeCertificate(request: CertificateRequest): string {
  const algorithm = sequence(oid(oids.ecdsaWithSha256))
  const body = sequence(
    tagged(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), Buffer.from(randomHex(15), 'hex')])),
    algorithm,
    distinguishedName(request.issuer),
    sequence(time(request.notBefore), time(request.notAfter)),
    distinguishedName(request.subject),
    request.publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(...extensions(request))),
  )
  const signature = sign('sha256', body, request.signer)
  const der = sequence(body, algorithm, bitString(Buffer.concat([Buffer.from([0]), signature])))
  const lines = der.toString('base64').replace(/.{64}(?=.)/g, '$&\n')
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`
}

function extensions({ subject, publicKey, signer, isAuthority }: CertificateRequest): Buffer[] {
  const own = extension(oids.subjectKeyIdentifier, octets(keyIdentifier(publicKey)), false)
  const issuer = sequence(tagged(0x80, keyIdentifier(createPublicKey(signer))))
  const issued = extension(oids.authorityKeyIdentifier, issuer, false)
  if (isAuthority) {
    const constraints = sequence(tagged(0x01, Buffer.from([0xff])), integer(Buffer.from([0])))
    return [
      extension(oids.basicConstraints, constraints, true),
      extension(oids.keyUsage, bitString(keyCertSignAndCrlSign), true),
      own,
    ]
  }
  return [
    extension(oids.basicConstraints, sequence(), true),
    extension(oids.keyUsage, bitString(digitalSignature), true),
    extension(oids.extendedKeyUsage, sequence(oid(oids.serverAuth)), false),
    // Without a common name the alternative name would have to be critical; with one it need not be.
    extension(oids.subjectAltName, sequence(tagged(0x82, Buffer.from(subject, 'latin1'))), false),
    own,
    issued,
  ]
}

function keyIdentifier(key: KeyObject): Buffer {
  return createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest()
    .subarray(0, 20)
}

function extension(id: string, value: Buffer, critical: boolean): Buffer {
  return sequence(oid(id), ...(critical ? [tagged(0x01, Buffer.from([0xff]))] : []), octets(value))
}

function distinguishedName(commonName: string): Buffer {
  const text = tagged(0x0c, Buffer.from(commonName.slice(0, longestCommonName)))
  return sequence(tagged(0x31, sequence(oid(oids.commonName), text)))
}

/** UTCTime to 2049, as the standard wants it, then GeneralizedTime. */
function time(ms: number): Buffer {
  const digits = `${new Date(ms).toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`
  return digits < '2050' ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits))
}

const sequence = (...parts: Buffer[]): Buffer => tagged(0x30, Buffer.concat(parts))
const oid = (hex: string): Buffer => tagged(0x06, Buffer.from(hex, 'hex'))
/** The first bit must be clear: it is a sign. */
const integer = (bytes: Buffer): Buffer => tagged(0x02, bytes)
const octets = (bytes: Buffer): Buffer => tagged(0x04, bytes)
/** The first byte counts the unused bits at the end. */
const bitString = (bytes: Buffer): Buffer => tagged(0x03, bytes)

function tagged(tag: number, content: Buffer): Buffer {
  const { length } = content
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content])
  const head = length < 0x100 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from(head), content])
}
