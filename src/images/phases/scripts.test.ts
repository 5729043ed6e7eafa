import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { copy } from './scripts.ts'

describe('the script of COPY', () => {
  it('leaves owner and mode of existing folders unchanged', () => {
    using opened = open()
    opened.folder('to', 0o1777, 7)
    opened.folder('to/both', 0o711, 8)
    opened.folder('from/both', 0o755, 0)
    opened.folder('from/new', 0o755, 0)
    writeFileSync(join(opened.path, 'from/both/file'), 'x')
    for (const [mode, folder, file] of [
      ['', 0o755, 0o644],
      ['0750', 0o750, 0o750],
    ] as const) {
      rmSync(join(opened.path, 'to/new'), { recursive: true, force: true })
      opened.copy('.', 'to', mode)
      assert.deepEqual(opened.seen('to'), [0o1777, 7])
      assert.deepEqual(opened.seen('to/both'), [0o711, 8])
      assert.deepEqual(opened.seen('to/new'), [folder, 42])
      assert.deepEqual(opened.seen('to/both/file'), [file, 42])
    }
  })

  it('creates a missing folder as it is in the files', () => {
    using opened = open()
    opened.folder('from/sub/inner', 0o755, 0)
    opened.copy('sub', 'new', '0700')
    assert.deepEqual(opened.seen('new'), [0o700, 42])
    assert.deepEqual(opened.seen('new/inner'), [0o700, 42])
  })

  it('treats names that look like options as names, alone and among others', () => {
    using opened = open()
    opened.folder('from/-r', 0o755, 0)
    opened.folder('to', 0o755, 0)
    writeFileSync(join(opened.path, 'from/-x.txt'), 'x')
    writeFileSync(join(opened.path, 'from/-r/inner'), 'x')
    opened.copy('-x.txt', 'one', '')
    opened.copy('-r', 'folder', '')
    opened.copy('-r', 'to', '')
    opened.copy('*', 'all', '')
    for (const name of ['one', 'folder/inner', 'to/inner', 'all/-x.txt', 'all/inner'])
      assert.deepEqual(opened.seen(name), [0o644, 42], name)
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
