import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { FakePacks } from './fake-packs.ts'
import { openFileSystemCalls } from './file-system-calls.ts'
import { createImages } from './images.ts'
import { digestOfTree } from './layer-tar.ts'

const shift = 100_000

async function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-layer-archive-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const packs = new FakePacks()
  const open = async (name: string, options = {}) => {
    const images = await createImages({ folder: join(folder, name), ownerShift: shift, packs, ...options })
    t.after(() => images.close())
    return images
  }
  const root = join(folder, 'root')
  writeTree(root)
  return { packs, open, root, one: await open('one'), other: await open('other') }
}

/** Everything that a layer of overlayfs may hold. */
function writeTree(root: string): void {
  const calls = openFileSystemCalls()
  const at = (name: string) => join(root, name)
  mkdirSync(at('folder/opaque'), { recursive: true })
  writeFileSync(at('plain'), 'text')
  linkSync(at('plain'), at('folder/linked'))
  symlinkSync('../outside', at('folder/link'))
  writeFileSync(at('setuid'), '#!/bin/sh\n')
  writeFileSync(at('capable'), '#!/bin/sh\n')
  writeFileSync(at('sparse'), 'begin')
  truncateSync(at('sparse'), 64 * 1024 * 1024)
  calls.makeWhiteout(Buffer.from(at('folder/whiteout')))
  calls.makeFifo(Buffer.from(at('fifo')))
  writeFileSync(Buffer.concat([Buffer.from(`${root}/odd-`), Buffer.from([0xff, 0xfe])]), 'odd')
  for (const name of ['.', 'plain', 'folder', 'folder/opaque', 'setuid', 'capable', 'sparse', 'fifo']) {
    chownSync(at(name), shift + 7, shift + 9)
  }
  chmodSync(at('setuid'), 0o4755)
  calls.setXattr(Buffer.from(at('folder/opaque')), 'trusted.overlay.opaque', Buffer.from('y'))
  calls.setXattr(Buffer.from(at('plain')), 'user.note', Buffer.from([1, 0, 2]))
  calls.setXattr(Buffer.from(at('plain')), 'system.posix_acl_access', accessList(shift + 5))
  // Version 3: the capability belongs to the root of a user namespace.
  const capability = Buffer.from(
    `010000030004000000000000000000000000000000${'a08601'}00`.slice(0, 48),
    'hex',
  )
  calls.setXattr(Buffer.from(at('capable')), 'security.capability', capability)
  utimesSync(at('plain'), 1_600_000_000.125, 1_600_000_000.125)
}

/** Another user may read what its owner may write, in the kernel's form. */
function accessList(reader: number): Buffer {
  const none = 0xffffffff
  const entries = [
    [0x01, 6, none],
    [0x02, 4, reader],
    [0x04, 4, none],
    [0x10, 4, none],
    [0x20, 4, none],
  ] as const
  const list = Buffer.alloc(4 + 8 * entries.length)
  list.writeUInt32LE(2)
  for (const [index, [tag, permissions, id]] of entries.entries()) {
    list.writeUInt16LE(tag, 4 + 8 * index)
    list.writeUInt16LE(permissions, 6 + 8 * index)
    list.writeUInt32LE(id, 8 + 8 * index)
  }
  return list
}

const listAttributes = `import os, sys
for folder, folders, files in os.walk(os.fsencode(sys.argv[1])):
    for name in sorted(folders + files):
        path = os.path.join(folder, name)
        for key in sorted(os.listxattr(path, follow_symlinks=False)):
            print(name, key, os.getxattr(path, key, follow_symlinks=False).hex())`

/** What can be told of every entry, with its extended attributes. */
function describeTree(root: string): string[] {
  const found = execFileSync('find', ['.', '-printf', '%P %y %m %U %G %s %n %l %T@\\n'], { cwd: root })
  const attributes = execFileSync('python3', ['-c', listAttributes, root])
  return [found, attributes].flatMap((text) => text.toString('latin1').split('\n').sort())
}

const signal = new AbortController().signal

test('a layer arrives on another machine unchanged', async (t) => {
  const { root, one, other } = await world(t)
  const layer = await one.adopt('base', root)
  await one.remoteLayers!.store([layer], signal)
  assert.deepEqual(other.missing([layer]), [layer])
  await other.remoteLayers!.fetch([layer], signal)
  const [folder] = other.layerFolders([layer])
  const described = describeTree(folder!)
  assert.deepEqual(described, describeTree(root))
  assert.ok(described.some((line) => line.includes('security.capability')))
  assert.ok(described.some((line) => line.includes('posix_acl')))
  assert.ok(lstatSync(join(folder!, 'sparse')).blocks < 1000)
  assert.equal(readFileSync(join(folder!, 'folder/linked'), 'utf8'), 'text')
})

test('a layer is named after its bytes, the same on every machine', async (t) => {
  const { root, one, other } = await world(t)
  const layer = await one.adopt('base', root)
  assert.equal(layer, await digestOfTree(root))
  assert.equal(await other.adopt('another name', root), layer)
})

test('a layer is stored once, and fetched once for all that need it at the same time', async (t) => {
  const { packs, root, one, other } = await world(t)
  const layer = await one.adopt('base', root)
  await Promise.all([1, 2].map(() => one.remoteLayers!.store([layer], signal)))
  assert.equal(packs.saved.length, 1)
  await Promise.all([1, 2, 3].map(() => other.remoteLayers!.fetch([layer], signal)))
  assert.equal(packs.loads, 1)
})

test('a layer that is missing in the store, or damaged there, does not exist after the fetch', async (t) => {
  const { packs, root, one, other } = await world(t)
  const layer = await one.adopt('base', root)
  await assert.rejects(other.remoteLayers!.fetch([layer], signal), { code: 'not_found' })
  await one.remoteLayers!.store([layer], signal)
  packs.isDamaged = true
  await assert.rejects(other.remoteLayers!.fetch([layer], signal))
  assert.deepEqual(other.missing([layer]), [layer])
  packs.isDamaged = false
  await other.remoteLayers!.fetch([layer], signal)
  assert.deepEqual(other.missing([layer]), [])
})

test('a base that was named after its recipe gets a name after its bytes before other machines have it', async (t) => {
  const { open, root, other } = await world(t)
  const sole = await open('third', { packs: undefined })
  const layer = await sole.adopt('base', root)
  assert.equal(sole.remoteLayers, undefined)
  await sole.close()
  const again = await open('third')
  await assert.rejects(again.remoteLayers!.store([layer], signal), { code: 'internal' })
  const [shared] = await again.remoteLayers!.sharedNames([layer])
  assert.notEqual(shared, layer)
  assert.equal(shared, await again.adopt('base', root))
  const [before, after] = again.layerFolders([layer, shared!]).map((folder) => realpathSync(folder))
  assert.deepEqual([before, after], [root, root], 'sandboxes that know the earlier name keep it')
  await again.remoteLayers!.store([shared!], signal)
  await other.remoteLayers!.fetch([shared!], signal)
  assert.deepEqual(other.missing([layer, shared!]), [layer])
})
