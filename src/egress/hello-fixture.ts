/** For tests: TLS hellos made by hand, in any shape. */

type HelloShape = { serverName?: string; ech?: boolean; recordBytes?: number; extensions?: Buffer[] }

const u16 = (value: number) => Buffer.from([value >> 8, value & 255])
const sized = (bytes: Buffer) => Buffer.concat([u16(bytes.length), bytes])

export const extension = (type: number, data: Buffer): Buffer => Buffer.concat([u16(type), sized(data)])

export function serverNameExtension(name: string): Buffer {
  return extension(0, sized(Buffer.concat([Buffer.from([0]), sized(Buffer.from(name, 'latin1'))])))
}

export function helloOf({ serverName, ech, recordBytes = 16_000, extensions = [] }: HelloShape): Buffer {
  const all = [
    extension(43, Buffer.from([2, 3, 4])),
    ...(serverName === undefined ? [] : [serverNameExtension(serverName)]),
    ...(ech ? [extension(0xfe0d, Buffer.alloc(64, 1))] : []),
    ...extensions,
  ]
  const body = Buffer.concat([
    u16(0x0303),
    Buffer.alloc(32, 7),
    Buffer.from([0]),
    sized(Buffer.from([0x13, 0x01])),
    Buffer.from([1, 0]),
    sized(Buffer.concat(all)),
  ])
  const message = Buffer.concat([Buffer.from([1, 0]), u16(body.length), body])
  return inRecords(message, recordBytes)
}

export function inRecords(message: Buffer, recordBytes: number): Buffer {
  const records: Buffer[] = []
  for (let at = 0; at < message.length; at += recordBytes) {
    records.push(Buffer.from([22, 3, 1]), sized(message.subarray(at, at + recordBytes)))
  }
  return Buffer.concat(records)
}
