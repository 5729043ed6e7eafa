/** Makes tar archives by hand, also ones that no tool would make. */
import { createHash } from 'node:crypto'
import { gzipSync, zstdCompressSync } from 'node:zlib'

export type MadeEntry = {
  name: string
  type?: string
  content?: string | Buffer
  target?: string
  mode?: number
  uid?: number
  gid?: number
  mtime?: number
  /** As the header says it, whatever the content is. */
  size?: number
  pax?: Record<string, string | Buffer>
}

export function tarOf(entries: readonly MadeEntry[], end: Buffer = Buffer.alloc(1024)): Buffer {
  return Buffer.concat([...entries.flatMap(entryBlocks), end])
}

function entryBlocks(entry: MadeEntry): Buffer[] {
  const content = Buffer.from(entry.content ?? '')
  const before = entry.pax ? entryBlocks({ name: 'pax', type: 'x', content: paxOf(entry.pax) }) : []
  return [
    ...before,
    headerOf(entry, content.length),
    content,
    Buffer.alloc((512 - (content.length % 512)) % 512),
  ]
}

export function paxOf(records: Record<string, string | Buffer>): Buffer {
  const lines = Object.entries(records).map(([key, value]) => {
    const body = Buffer.concat([Buffer.from(` ${key}=`), Buffer.from(value), Buffer.from('\n')])
    let length = body.length + 1
    while (String(length).length + body.length !== length) length = String(length).length + body.length
    return Buffer.concat([Buffer.from(String(length)), body])
  })
  return Buffer.concat(lines)
}

export function headerOf(entry: MadeEntry, contentSize: number): Buffer {
  const block = Buffer.alloc(512)
  const octal = (value: number, at: number, length: number) =>
    block.write(`${value.toString(8).padStart(length - 1, '0')}\0`, at, 'latin1')
  block.write(entry.name, 0, 100, 'utf8')
  octal(entry.mode ?? (entry.type === '5' ? 0o755 : 0o644), 100, 8)
  octal(entry.uid ?? 0, 108, 8)
  octal(entry.gid ?? 0, 116, 8)
  octal(entry.size ?? contentSize, 124, 12)
  octal(entry.mtime ?? 1_600_000_000, 136, 12)
  block.write(entry.type ?? '0', 156)
  block.write(entry.target ?? '', 157, 100, 'utf8')
  block.write('ustar\x0000', 257, 'latin1')
  return withChecksum(block)
}

export function withChecksum(block: Buffer): Buffer {
  block.fill(0x20, 148, 156)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return block
}

export type MadeLayer = { blob: Buffer; mediaType: string; diffID: string }

const suffixes = { gzip: '+gzip', zstd: '+zstd', plain: '' }

export function layerOf(archive: Buffer, compression: keyof typeof suffixes = 'gzip'): MadeLayer {
  const blob = { gzip: gzipSync, zstd: zstdCompressSync, plain: (bytes: Buffer) => bytes }[compression](
    archive,
  )
  return {
    blob,
    mediaType: `application/vnd.oci.image.layer.v1.tar${suffixes[compression]}`,
    diffID: sha256(archive),
  }
}

export const sha256 = (bytes: Buffer | string): string =>
  `sha256:${createHash('sha256').update(bytes).digest('hex')}`
