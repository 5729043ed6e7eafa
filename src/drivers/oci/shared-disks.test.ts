import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { assertMountPoints, assertSamePaths, explainRestore } from './shared-disks.ts'

const mount = (path: string) => ({ device: '/dev/loop0', options: 'rw', folder: 'files', path })
const complaint =
  'restoring container "i1": failed to load kernel: vfs.CompleteRestore() failed: failed to complete restore for ' +
  'filesystem type "9p": failed to walk "doomed" of type 0100000 in mount "__no_name_0:/mnt": no such file or directory'

describe('memory and shared disks', () => {
  it('fit when the same paths are mounted, whatever the devices', () => {
    assertSamePaths(undefined, [])
    assertSamePaths([mount('/a'), mount('/b')], [{ ...mount('/a'), device: '/dev/loop9' }, mount('/b')])
    for (const now of [[], [mount('/b')], [mount('/b'), mount('/a')]]) {
      assert.throws(() => assertSamePaths([mount('/a'), mount('/b')], now), { code: 'unprocessable' })
    }
  })

  it('a file that is gone from a shared disk is named; other complaints stay as they are', () => {
    const record = { slot: 1, mounts: [mount('/mnt')] }
    assert.match(explainRestore(complaint, record)?.message ?? '', /had "doomed" open on a volume/)
    assert.equal(explainRestore(complaint, { slot: 1 }), undefined)
    assert.equal(explainRestore('runsc: out of memory', record), undefined)
  })
})

describe('a place to mount a disk at', () => {
  it('is not a file, nor below one; what links and layers hide is left to the runtime', (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'warren-roots-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const [upper, lower] = [join(folder, 'upper'), join(folder, 'lower')]
    for (const one of [join(upper, 'etc'), join(upper, 'a'), join(lower, 'etc'), join(lower, 'srv')]) {
      mkdirSync(one, { recursive: true })
    }
    writeFileSync(join(upper, 'etc/passwd'), '')
    // Were it followed, a file of this machine would be found.
    symlinkSync(import.meta.dirname, join(upper, 'link'))
    symlinkSync(import.meta.dirname, join(lower, 'a'))
    writeFileSync(join(lower, 'etc/shadow'), '')
    const own = 'shared-disks.test.ts'
    const rejects = (path: string, roots = [upper, lower]) => {
      assert.throws(() => assertMountPoints(roots, [mount('/new'), mount(path)]), {
        code: 'invalid_argument',
        message: /^A volume cannot be mounted at "\/etc.*: "\/etc\/\w+" is a file. Choose a folder/,
      })
    }
    rejects('/etc/passwd')
    rejects('/etc/passwd/below')
    rejects('/etc/shadow', [lower])
    const fine = ['/etc', '/srv', '/new/deep', '/link', `/link/${own}`, `/a/${own}`, '/etc/shadow'].map(mount)
    assertMountPoints([upper, lower], fine)
    assertMountPoints([upper], undefined)
  })
})
