/**
 * Base64 by Node's own code, fifty times as fast as by script: all output and input of processes passes
 * through it. The Protobuf library takes what it finds under these names when it is loaded, so this must come
 * before it; what is not plainly right is left to the library, which then says what is wrong.
 */
type Base64 = {
  toBase64(): string
  setFromBase64(text: string): { read: number; written: number }
}

const plain = /^[\w+/-]*={0,2}$/

const methods: Base64 & ThisType<Uint8Array> = {
  toBase64() {
    return bufferOver(this).toString('base64')
  },
  setFromBase64(text) {
    const isWhole = text.length % 4 !== 1 && plain.test(text)
    const written = isWhole ? bufferOver(this).write(text, 'base64') : 0
    return { read: isWhole && written === this.length ? text.length : 0, written }
  },
}

function bufferOver({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}

for (const [name, value] of Object.entries(methods)) {
  if (!(name in Uint8Array.prototype)) {
    Object.defineProperty(Uint8Array.prototype, name, { value, configurable: true, writable: true })
  }
}
