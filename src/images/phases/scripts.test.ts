import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { copy } from './scripts.ts'

describe('the script of COPY', () => {
  it('leaves owner and mode of existing folders unchanged', () => {
    using place = open()
    place.folder('to', 0o1777, 7)
    place.folder('to/both', 0o711, 8)
    place.folder('from/both', 0o755, 0)
    place.folder('from/new', 0o755, 0)
    writeFileSync(join(place.path, 'from/both/file'), 'x')
    for (const [mode, folder, file] of [
      ['', 0o755, 0o644],
      ['0750', 0o750, 0o750],
    ] as const) {
      rmSync(join(place.path, 'to/new'), { recursive: true, force: true })
      place.copy('.', 'to', mode)
      assert.deepEqual(place.seen('to'), [0o1777, 7])
      assert.deepEqual(place.seen('to/both'), [0o711, 8])
      assert.deepEqual(place.seen('to/new'), [folder, 42])
      assert.deepEqual(place.seen('to/both/file'), [file, 42])
    }
  })

  it('creates a missing folder as it is in the files', () => {
    using place = open()
    place.folder('from/sub/inner', 0o755, 0)
    place.copy('sub', 'new', '0700')
    assert.deepEqual(place.seen('new'), [0o700, 42])
    assert.deepEqual(place.seen('new/inner'), [0o700, 42])
  })

  it('treats names that look like options as names, alone and among others', () => {
    using place = open()
    place.folder('from/-r', 0o755, 0)
    place.folder('to', 0o755, 0)
    writeFileSync(join(place.path, 'from/-x.txt'), 'x')
    writeFileSync(join(place.path, 'from/-r/inner'), 'x')
    place.copy('-x.txt', 'one', '')
    place.copy('-r', 'folder', '')
    place.copy('-r', 'to', '')
    place.copy('*', 'all', '')
    for (const name of ['one', 'folder/inner', 'to/inner', 'all/-x.txt', 'all/inner'])
      assert.deepEqual(place.seen(name), [0o644, 42], name)
  })
})

function open() {
  const path = mkdtempSync(join(tmpdir(), 'warren-copy-test-'))
  const at = (name: string) => join(path, name)
  mkdirSync(at('from'), { mode: 0o755 })
  return {
    path,
    folder(name: string, mode: number, owner: number) {
      mkdirSync(at(name), { recursive: true })
      chmodSync(at(name), mode)
      chownSync(at(name), owner, owner)
    },
    copy(source: string, to: string, mode: string) {
      execFileSync('tar', ['-C', at('from'), '-cf', at('files.tar'), '.'])
      const env = { WARREN_ARCHIVE: at('files.tar'), WARREN_SRC: source, WARREN_DEST: at(to) }
      execFileSync('bash', ['-c', copy], {
        cwd: path,
        stdio: 'ignore',
        env: { PATH: process.env.PATH, ...env, WARREN_OWNER: '42:42', WARREN_MODE: mode },
      })
    },
    seen(name: string): [mode: number, owner: number] {
      const { mode, uid } = statSync(at(name))
      return [mode & 0o7777, uid]
    },
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  }
}
