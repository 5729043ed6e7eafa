import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { unmount, unmountIfMounted } from './unmount.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-unmount-'))
after(() => rmSync(folder, { recursive: true }))

const isMounted = (path: string) => readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${path} `)

test('a mounted path is unmounted even if paths before it in the list fail', async () => {
  const path = join(folder, 'mounted')
  mkdirSync(path)
  execFileSync('mount', ['-t', 'tmpfs', 'none', path])
  assert.ok(isMounted(path))
  await unmountIfMounted([join(folder, 'nowhere'), folder, path])
  assert.ok(!isMounted(path))
  await assert.rejects(unmount(path), { code: 'EINVAL', syscall: 'umount2' })
})
