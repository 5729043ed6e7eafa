/**
 * One header of a tar archive: ustar, the old format, GNU's and pax's extensions. Names have one character
 * per byte.
 */
import { AppError } from '../app-error.ts'

type EntryKind = 'file' | 'folder' | 'symlink' | 'hardlink' | 'device' | 'fifo'

export type TarEntry = {
  kind: EntryKind
  path: string
  /** The target of a link; empty for anything else. */
  target: string
  /** Bytes of content; 0 for everything but files. */
  size: number
  mode: number
  uid: number
  gid: number
  /** In seconds. */
  mtime: number
  xattrs: [name: string, value: Buffer][]
}

/** The fields of the header alone; preceding extensions may override them. */
export type RawHeader = Omit<TarEntry, 'kind' | 'xattrs'> & { type: string }

export const blockSize = 512

export function parseHeader(block: Buffer): RawHeader {
  if (readNumber(block, 148, 8) !== checksumOf(block)) throw badArchive('a header has a wrong checksum')
  const isUstar = block.toString('latin1', 257, 263) === 'ustar\0'
  const prefix = isUstar ? readText(block, 345, 155) : ''
  const name = readText(block, 0, 100)
  return {
    path: prefix === '' ? name : `${prefix}/${name}`,
    target: readText(block, 157, 100),
    type: block[156] === 0 ? '0' : String.fromCharCode(block[156]!),
    size: readNumber(block, 124, 12),
    mode: readNumber(block, 100, 8),
    uid: readNumber(block, 108, 8),
    gid: readNumber(block, 116, 8),
    mtime: readNumber(block, 136, 12),
  }
}

/** Other types are rejected: their meaning is unknown, and so is whether data follows. */
const kinds: Record<string, EntryKind> = {
  '0': 'file',
  '7': 'file',
  '1': 'hardlink',
  '2': 'symlink',
  '3': 'device',
  '4': 'device',
  '5': 'folder',
  '6': 'fifo',
}

export function entryOf({ type, ...header }: RawHeader, xattrs: TarEntry['xattrs']): TarEntry {
  if (type === 'S')
    throw badArchive(`${shown(header.path)} is a sparse file of GNU tar; make the archive without --sparse`)
  const kind = kinds[type]
  if (!kind) throw badArchive(`${shown(header.path)} is of the unknown type ${shown(type)}`)
  // Before ustar, a folder was a file whose name ends in a slash.
  const isFolder = kind === 'folder' || (kind === 'file' && header.path.endsWith('/'))
  const known = isFolder ? 'folder' : kind
  return { ...header, kind: known, size: known === 'file' ? header.size : 0, xattrs }
}

function checksumOf(block: Buffer): number {
  let sum = 8 * 0x20
  for (let i = 0; i < blockSize; i++) if (i < 148 || i >= 156) sum += block[i]!
  return sum
}

function readText(block: Buffer, at: number, length: number): string {
  const end = block.indexOf(0, at)
  return block.toString('latin1', at, end === -1 || end > at + length ? at + length : end)
}

/** Octal text, or GNU's binary number if it would not fit. */
function readNumber(block: Buffer, at: number, length: number): number {
  if (block[at]! & 0x80) {
    let value = block[at] === 0xff ? -1 : block[at]! & 0x7f
    for (let i = 1; i < length; i++) value = value * 256 + block[at + i]!
    return checkedNumber(value)
  }
  const text = readText(block, at, length).trim()
  if (!/^[0-7]*$/.test(text)) throw badArchive('a number in a header is not octal')
  return text === '' ? 0 : checkedNumber(Number.parseInt(text, 8))
}

export function checkedNumber(value: number): number {
  if (!Number.isSafeInteger(value)) throw badArchive('a number in a header is too large')
  return value
}

export function badArchive(why: string): AppError {
  return new AppError('unprocessable', `An archive cannot be unpacked: ${why}.`)
}

/** For messages: names are bytes that may not be text, and may contain line ends. */
export function shown(name: string): string {
  return JSON.stringify(Buffer.from(name.slice(0, 300), 'latin1').toString('utf8'))
}
