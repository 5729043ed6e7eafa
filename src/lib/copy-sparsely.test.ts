import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, openSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { copySparsely } from './copy-sparsely.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-copy-'))
after(() => rmSync(folder, { recursive: true }))

const blockBytes = 4096
/** The unit of the blocks that `stat` counts. */
const unitBytes = 512
const at = (name: string) => join(folder, name)

function write(name: string, parts: Record<number, Uint8Array>): string {
  const file = openSync(at(name), 'w')
  for (const [offset, bytes] of Object.entries(parts)) writeSync(file, bytes, 0, bytes.length, Number(offset))
  return at(name)
}

const bytesOnDisk = (path: string) => statSync(path).blocks * unitBytes

describe('a sparse copy', () => {
  it('has the same bytes, and holes in place of holes or zeroes', () => {
    const source = write('source', {
      5000: Buffer.from('in the second block'),
      [8 * blockBytes]: Buffer.concat([
        Buffer.alloc(4 * blockBytes, 'x'),
        Buffer.alloc(20 * blockBytes),
        Buffer.from('y'),
      ]),
      [1000 * blockBytes]: Buffer.alloc(20 * blockBytes),
      [2000 * blockBytes]: Buffer.from('end'),
    })
    copySparsely(source, at('copy'))
    assert.ok(readFileSync(source).equals(readFileSync(at('copy'))))
    assert.equal(bytesOnDisk(at('copy')), 7 * blockBytes)
  })

  it('has the same length for a file that ends with a hole, or has nothing else', () => {
    for (const [name, content] of Object.entries({ empty: '', 'ends-with-hole': 'begin' })) {
      writeFileSync(at(name), content)
      execFileSync('truncate', ['--size=1G', at(name)])
      copySparsely(at(name), at(`${name}-copy`))
      const { size, blocks } = statSync(at(`${name}-copy`))
      assert.deepEqual([size, blocks * unitBytes], [2 ** 30, content ? blockBytes : 0])
    }
  })

  it('of a disk uses no more blocks than cp, and replaces the target', () => {
    const disk = at('disk')
    execFileSync('mkfs.ext4', ['-q', '-F', '-E', 'lazy_itable_init=1,nodiscard', disk, '1G'])
    execFileSync('cp', ['--sparse=always', disk, at('disk-by-cp')])
    writeFileSync(at('disk-copy'), Buffer.alloc(10_000_000, 'z'))
    copySparsely(disk, at('disk-copy'))
    execFileSync('cmp', [disk, at('disk-copy')])
    // The file system needs blocks of its own to record where the blocks lie.
    execFileSync('sync', [at('disk-copy'), at('disk-by-cp')])
    assert.ok(bytesOnDisk(at('disk-copy')) <= bytesOnDisk(at('disk-by-cp')))
  })

  it('fails with the reason', () => {
    assert.throws(() => copySparsely(at('nowhere'), at('copy')), { code: 'ENOENT' })
    assert.throws(() => copySparsely(write('small', {}), at('nowhere/copy')), { code: 'ENOENT' })
    assert.throws(() => copySparsely(write('large', { 0: Buffer.from('x') }), '/dev/full'), /EINVAL|ENOSPC/)
  })
})
