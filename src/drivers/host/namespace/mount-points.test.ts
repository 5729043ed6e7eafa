import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { badMountPoint, checkMountPoints } from './mount-points.ts'

function aRoot(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'warren-root-'))
  t.after(() => rmSync(root, { recursive: true }))
  for (const folder of ['etc', 'dev', 'srv/deep']) mkdirSync(join(root, folder), { recursive: true })
  writeFileSync(join(root, 'etc/passwd'), '')
  const links = {
    own: 'srv',
    absolute: '/srv/deep',
    'srv/up': '../../../..',
    machine: import.meta.dirname,
    device: 'dev',
    agent: '/.warren',
    kit: '/own/../agent/lib',
    process: '/proc/self',
    all: '/',
    circle: 'circle',
    file: 'etc/passwd',
    missing: '/new/folder',
  }
  for (const [name, target] of Object.entries(links)) symlinkSync(target, join(root, name))
  return (...paths: string[]) => checkMountPoints({ root, paths })
}

const rejects = (work: () => void, why: RegExp) => assert.throws(work, { code: badMountPoint, message: why })

describe('a mount point for a disk', () => {
  it('may be a folder of the image, also behind links, or one that does not exist yet', (t) => {
    const check = aRoot(t)
    check('/srv', '/new/deep', '/etc')
    check('/own/x', '/absolute/y', '/missing/z')
    // Folders of this machine do not count: in the sandbox this folder does not exist.
    check('/machine', '/srv/up/mnt')
  })

  it('cannot be a file, a path below a file, or a loop of links', (t) => {
    const check = aRoot(t)
    for (const path of ['/etc/passwd', '/etc/passwd/below', '/file', '/srv/up/file']) {
      rejects(() => check(path), /: "\/etc\/passwd" is a file. Choose a folder of its own/)
    }
    rejects(() => check('/circle/x'), /links lead in a circle/)
    rejects(() => check(`/${'x'.repeat(300)}`), /it is too long/)
  })

  it('cannot be one of the sandbox’s own system folders, not even through links', (t) => {
    const check = aRoot(t)
    for (const path of [
      '/device',
      '/device/shm',
      '/agent',
      '/agent/lib',
      '/kit',
      '/process',
      '/all',
      '/srv/up',
    ]) {
      rejects(() => check(path), /is a part of the sandbox itself/)
    }
  })

  it('cannot lie inside another', (t) => {
    const check = aRoot(t)
    rejects(() => check('/srv/deep', '/absolute'), /leads into the mount at/)
    rejects(() => check('/srv', '/absolute'), /leads into the mount at "\/srv"/)
  })
})
