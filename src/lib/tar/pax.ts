/**
 * The records of a pax header: `length key=value
 * `. Each overrides a field of the next header.
 */
import { badArchive, checkedNumber, type RawHeader, type TarEntry } from './tar-header.ts'

export type PaxRecords = Map<string, Buffer>

const xattrPrefix = 'SCHILY.xattr.'

export function parsePax(data: Buffer): PaxRecords {
  const records: PaxRecords = new Map()
  for (let at = 0; at < data.length; ) {
    const space = data.indexOf(0x20, at)
    const lengthText = space === -1 ? '' : data.toString('latin1', at, space)
    const end = at + Number(lengthText)
    const equals = data.indexOf(0x3d, space)
    const whole = /^[1-9]\d{0,8}$/.test(lengthText) && end <= data.length && data[end - 1] === 0x0a
    if (!whole || equals === -1 || equals >= end) throw badArchive('a pax header is malformed')
    records.set(data.toString('latin1', space + 1, equals), data.subarray(equals + 1, end - 1))
    at = end
  }
  return records
}

export function applyPax(header: RawHeader, records: PaxRecords): RawHeader {
  const text = (key: string) => records.get(key)?.toString('latin1')
  for (const key of records.keys()) {
    if (key.startsWith('GNU.sparse.'))
      throw badArchive('it holds a sparse file of GNU tar; make the archive without --sparse')
  }
  const whole = (key: string, otherwise: number) => {
    const given = text(key)
    if (given === undefined || given === '') return otherwise
    if (!/^-?\d+$/.test(given)) throw badArchive(`a pax header has no number for ${key}`)
    return checkedNumber(Number(given))
  }
  const mtime = Number(text('mtime') || header.mtime)
  return {
    ...header,
    path: text('path') || header.path,
    target: text('linkpath') || header.target,
    size: whole('size', header.size),
    uid: whole('uid', header.uid),
    gid: whole('gid', header.gid),
    mtime: Number.isFinite(mtime) ? mtime : header.mtime,
  }
}

export function xattrsIn(records: PaxRecords): TarEntry['xattrs'] {
  return [...records]
    .filter(([key]) => key.startsWith(xattrPrefix))
    .map(([key, value]) => [key.slice(xattrPrefix.length), value])
}
