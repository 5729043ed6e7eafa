/** A trust store in Java's own format (JKS), which every Java reads. */
import { createHash } from 'node:crypto'

const magic = 0xfeedfeed
const version = 2
const trustedCertificate = 2
/** The default password of Java's tools: the store holds no secrets. */
const usualPassword = 'changeit'

/** Takes certificates in PEM form. The same certificates give the same bytes. */
export function javaTrustStore(certificates: readonly string[]): Buffer {
  const entries = certificates.flatMap((pem, index) => {
    const content = Buffer.from(pem.replace(/-----[^-]+-----/g, ''), 'base64')
    const madeAt = Buffer.alloc(8)
    return [number(trustedCertificate), text(`warren-${index}`), madeAt, text('X.509'), sized(content)]
  })
  const store = Buffer.concat([number(magic), number(version), number(certificates.length), ...entries])
  const password = Buffer.from(usualPassword, 'utf16le').swap16()
  const digest = createHash('sha1').update(password).update('Mighty Aphrodite').update(store).digest()
  return Buffer.concat([store, digest])
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function text(value: string): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(value.length)
  return Buffer.concat([length, Buffer.from(value, 'latin1')])
}

function sized(content: Buffer): Buffer {
  return Buffer.concat([number(content.length), content])
}
