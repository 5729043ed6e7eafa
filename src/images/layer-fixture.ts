/** Writes hand-made archives as layers, beside a file that none of them may touch. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  type Stats,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { TarReader } from '../lib/tar/tar-reader.ts'
import { type MadeEntry, tarOf } from './archive-fixture.ts'
import { openFileSystemCalls } from './file-system-calls.ts'
import { LayerWriter } from './layer-writer.ts'

export const home = mkdtempSync(join(tmpdir(), 'warren-layer-'))
after(() => rmSync(home, { recursive: true, force: true }))
const calls = openFileSystemCalls()
export const outside = join(home, 'outside')
writeFileSync(outside, 'untouched')
let made = 0

export function write(entries: readonly MadeEntry[], { ownerShift = 0, maxEntries = 1000 } = {}) {
  const folder = join(home, `layer-${++made}`)
  mkdirSync(folder)
  const writer = new LayerWriter({ folder, ownerShift, maxEntries, calls })
  const reader = new TarReader(writer)
  try {
    reader.push(tarOf(entries))
    reader.finish()
  } finally {
    writer.close()
  }
  const facts = writer.finish()
  return {
    facts,
    at: (path: string) => join(folder, path),
    stat: (path: string) => lstatSync(join(folder, path)),
  }
}

export const xattrs = (path: string): string =>
  execFileSync('python3', [
    '-c',
    'import os,sys\nfor n in sorted(os.listxattr(sys.argv[1],follow_symlinks=False)): print(n, os.getxattr(sys.argv[1],n,follow_symlinks=False).hex())',
    path,
  ]).toString()
export const isWhiteout = (stat: Stats) => stat.isCharacterDevice() && stat.rdev === 0
export const nothingOutside = () => {
  assert.equal(readFileSync(outside, 'utf8'), 'untouched')
  assert.deepEqual(
    readdirSync(home).filter((name) => !name.startsWith('layer-')),
    ['outside'],
  )
}
