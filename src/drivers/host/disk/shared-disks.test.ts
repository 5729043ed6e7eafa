import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { assertSamePaths, explainRestore } from './shared-disks.ts'

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

  it('the error names a file that is gone from a shared disk; other errors stay as they are', () => {
    const record = { slot: 1, mounts: [mount('/mnt')] }
    assert.match(explainRestore(complaint, record)?.message ?? '', /had "doomed" open on a volume/)
    assert.equal(explainRestore(complaint, { slot: 1 }), undefined)
    assert.equal(explainRestore('runsc: out of memory', record), undefined)
  })
})
