import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { describe, it } from 'node:test'

const hook = resolve(import.meta.dirname, '../.githooks/commit-msg')

function judge(message: string): { status: number | null; stderr: string } {
  const folder = mkdtempSync(join(tmpdir(), 'warren-commit-'))
  const file = join(folder, 'COMMIT_EDITMSG')
  writeFileSync(file, message)
  const { status, stderr } = spawnSync(hook, [file], { encoding: 'utf8' })
  rmSync(folder, { recursive: true })
  return { status, stderr }
}

describe('the hook for commit messages', () => {
  it('accepts a subject that names what changes, and merges', () => {
    for (const subject of [
      'expiry: do not end a sandbox whose timeout was extended',
      'drivers/oci, test: close the data folder',
      `store: ${'ä'.repeat(65)}`,
      "Merge branch 'main' into walls",
    ])
      assert.deepEqual(judge(`${subject}\n\nMore, in as many words as it takes.\n`), {
        status: 0,
        stderr: '',
      })
  })

  it('rejects a subject that is too long, and says by how much', () => {
    const { status, stderr } = judge(`store: ${'x'.repeat(66)}\n`)
    assert.equal(status, 1)
    assert.match(stderr, /has 73 characters; at most 72/)
  })

  it('rejects a subject that does not say what changes', () => {
    for (const subject of ['fixed it', 'Store: fixed', ': fixed', 'store:fixed'])
      assert.equal(judge(`${subject}\n`).status, 1, subject)
  })
})
