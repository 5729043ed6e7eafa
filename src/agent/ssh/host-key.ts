/**
 * A sandbox's SSH host key. It is made from the sandbox's token, so it stays the same after a pause, a resume and a restart, two
 * sandboxes never share one, and nothing is stored. The token cannot be found from it.
 */
import { createHmac, createPrivateKey, createPublicKey } from 'node:crypto'

const algorithm = 'ssh-ed25519'
const keyBytes = 32
/** What stands before the 32 bytes of a private key in PKCS #8. */
const pkcs8Head = Buffer.from('302e020100300506032b657004220420', 'hex')
const blockBytes = 8
const lineLength = 70

/** As OpenSSH writes private keys, without a passphrase. */
export function hostKeyOf(token: string): string {
  const seed = createHmac('sha256', token).update('warren ssh host key').digest()
  const privateKey = createPrivateKey({ key: Buffer.concat([pkcs8Head, seed]), format: 'der', type: 'pkcs8' })
  // The key is the end of its SPKI form, with all its zeros.
  const publicKey = createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-keyBytes)
  const publicPart = Buffer.concat([text(algorithm), text(publicKey)])
  const check = seed.subarray(0, 4)
  const secret = Buffer.concat([check, check, publicPart, text(Buffer.concat([seed, publicKey])), text('')])
  const padding = Buffer.from([1, 2, 3, 4, 5, 6, 7]).subarray(0, -secret.length & (blockBytes - 1))
  const parts = [text('none'), text('none'), text(''), number(1), text(publicPart)]
  const body = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    ...parts,
    text(Buffer.concat([secret, padding])),
  ]).toString('base64')
  const lines = body.match(new RegExp(`.{1,${lineLength}}`, 'g')) ?? []
  return ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n')
}

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function text(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([number(bytes.length), bytes])
}
