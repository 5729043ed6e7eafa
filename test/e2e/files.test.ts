/** Files, folders, watching, signed URLs and git, as the unmodified JavaScript clients use them, on both runtimes. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import type * as current from 'e2b'
import { eventually } from '../support/eventually.ts'
import { javaScriptReleases } from '../support/releases.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

// The two releases share the surface used here; their type declarations are not assignable to each other.

for (const isolation of isolations) {
  describe(`files through the JavaScript clients, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())
    for (const [version, client] of javaScriptReleases(isolation, 'same')) {
      describe(`e2b ${version}`, () => filesTests(client, () => warren))
    }
  })
}

function filesTests(client: typeof current, warren: () => Warren): void {
  let sandbox: current.Sandbox
  before(async () => {
    sandbox = await client.Sandbox.create('base', { ...warren().client, timeoutMs: 3_600_000 })
  })
  after(() => sandbox?.kill())
  const shell = async (command: string, user = 'user') =>
    (await sandbox.commands.run(command, { user })).stdout.trim()

  it('reads as text, bytes, blob and stream, compressed or not', async () => {
    const bytes = randomBytes(300_000)
    await sandbox.files.write('formats.bin', new Blob([bytes]))
    for (const gzip of [false, true]) {
      const asBytes = await sandbox.files.read('formats.bin', { format: 'bytes', gzip })
      assert.deepEqual(Buffer.from(asBytes), bytes)
      const blob = await sandbox.files.read('formats.bin', { format: 'blob', gzip })
      assert.deepEqual(Buffer.from(await blob.arrayBuffer()), bytes)
      const chunks: Uint8Array[] = []
      for await (const chunk of await sandbox.files.read('formats.bin', { format: 'stream', gzip }))
        chunks.push(chunk)
      assert.deepEqual(Buffer.concat(chunks), bytes)
    }
    await sandbox.files.write('empty', '')
    assert.equal(await sandbox.files.read('empty'), '')
  })

  it('writes forms, streams and compressed bodies, several files at once, for any user', async () => {
    const text = 'grüße\n'.repeat(10_000)
    const stream = () => new Blob([text]).stream()
    await sandbox.files.write('plain.txt', text)
    await sandbox.files.write('octets.txt', text, { useOctetStream: true })
    await sandbox.files.write('stream.txt', stream())
    await sandbox.files.write('zipped.txt', text, { gzip: true })
    for (const name of ['plain', 'octets', 'stream', 'zipped'])
      assert.equal(await sandbox.files.read(`${name}.txt`), text, name)
    const written = await sandbox.files.write([
      { path: 'many/one', data: '1' },
      { path: '/tmp/many two', data: '2' },
    ])
    assert.deepEqual(
      written.map((file) => [file.name, file.path, file.type]),
      [
        ['one', '/home/user/many/one', 'file'],
        ['many two', '/tmp/many two', 'file'],
      ],
    )
    await sandbox.files.write('/root/deep/file', 'x', { user: 'root' })
    assert.equal(await shell('stat -c "%U %a" /root/deep /root/deep/file', 'root'), 'root 755\nroot 644')
    assert.equal(await shell('stat -c "%U %a" many many/one'), 'user 755\nuser 644')
  })

  it('keeps metadata with a file until the next upload', async () => {
    const metadata = { author: 'somebody', purpose: 'a test' }
    const written = await sandbox.files.write('noted.txt', 'x', { metadata })
    assert.deepEqual(written.metadata, metadata)
    assert.deepEqual((await sandbox.files.getInfo('noted.txt')).metadata, metadata)
    const moved = await sandbox.files.rename('noted.txt', 'noted/again.txt')
    assert.deepEqual(moved.metadata, metadata)
    assert.deepEqual((await sandbox.files.list('noted'))[0]?.metadata, metadata)
    await sandbox.files.write('noted/again.txt', 'y')
    assert.equal((await sandbox.files.getInfo('noted/again.txt')).metadata, undefined)
    await assert.rejects(
      sandbox.files.write('noted/bad.txt', 'x', { metadata: { k: 'v'.repeat(5000) } }),
      client.InvalidArgumentError,
    )
  })

  it('returns links, owners, modes and times of entries', async () => {
    await shell('mkdir entries && cd entries && echo x > target && ln -s target link && ln -s nowhere broken')
    await shell('chown root entries/target && chmod 4750 entries/target', 'root')
    const [broken, link, target] = await sandbox.files.list('entries')
    assert.deepEqual([broken?.name, broken?.symlinkTarget], ['broken', '/home/user/entries/nowhere'])
    assert.deepEqual(
      [link?.type, link?.symlinkTarget, link?.permissions],
      ['file', '/home/user/entries/target', 'Lrwxrwxrwx'],
    )
    assert.deepEqual(
      [target?.owner, target?.group, target?.mode, target?.permissions],
      ['root', 'user', 0o750, 'urwxr-x---'],
    )
    assert.ok(Math.abs(target!.modifiedTime!.getTime() - Date.now()) < 60_000)
  })

  it('lists ten thousand entries, and a deep tree to the requested depth', async () => {
    await shell(
      'mkdir wide && cd wide && seq 10000 | xargs touch && mkdir -p ../d/a/b/c && ln -s .. ../d/a/up',
    )
    const wide = await sandbox.files.list('wide')
    assert.equal(wide.length, 10_000)
    assert.deepEqual(
      wide.slice(0, 3).map((entry) => entry.name),
      ['1', '10', '100'],
    )
    const deep = await sandbox.files.list('d', { depth: 4_000_000_000 })
    assert.deepEqual(
      deep.map((entry) => entry.path.slice('/home/user/'.length)),
      ['d/a', 'd/a/b', 'd/a/b/c', 'd/a/up'],
    )
  })

  it('rejects with the messages of the client', async () => {
    await sandbox.files.makeDir('folder')
    await assert.rejects(sandbox.files.read('nothing'), client.NotFoundError)
    await assert.rejects(sandbox.files.read('folder'), client.InvalidArgumentError)
    await assert.rejects(sandbox.files.write('folder', 'x'), client.InvalidArgumentError)
    await assert.rejects(sandbox.files.list('plain.txt'), client.InvalidArgumentError)
    await assert.rejects(sandbox.files.write('x', 'x', { user: 'stranger' }), client.AuthenticationError)
    await shell('mkfifo pipe')
    await assert.rejects(sandbox.files.write('pipe', 'x'), client.InvalidArgumentError)
    await assert.rejects(sandbox.files.read('pipe'), client.InvalidArgumentError)
  })

  it('reports a full disk, and leaves nothing half written', async () => {
    await shell('fallocate -l $(($(df --output=avail -B1 . | tail -1) - 2000000)) filler')
    await sandbox.files.makeDir('crowded')
    await sandbox.files.write('crowded/old', 'old')
    const large = () => new Blob([Buffer.alloc(8 * 1024 * 1024)])
    for (const name of ['old', 'new']) {
      await assert.rejects(sandbox.files.write(`crowded/${name}`, large()), client.NotEnoughSpaceError)
    }
    assert.deepEqual(
      (await sandbox.files.list('crowded')).map((entry) => [entry.name, entry.size]),
      [['old', 3]],
    )
    await sandbox.files.remove('filler')
    await sandbox.files.write('crowded/new', large())
  })

  it('watches a folder and those below it, with entries', async () => {
    await sandbox.files.makeDir('watched')
    const seen: string[] = []
    const entries: (string | undefined)[] = []
    const handle = await sandbox.files.watchDir(
      'watched',
      (event) => {
        seen.push(`${event.type} ${event.name}`)
        entries.push(event.entry?.path)
      },
      { recursive: true, includeEntry: true },
    )
    const sees = (...events: string[]) =>
      eventually(() => {
        for (const event of events) assert.ok(seen.includes(event), `${event} of ${seen}`)
      })
    await sandbox.files.write('watched/up', 'one')
    await sees('create up', 'chmod up', 'write up')
    seen.length = 0
    await sandbox.files.write('watched/up', 'two')
    await sees('write up')
    assert.ok(!seen.includes('create up'))
    await shell(
      'cd watched && mkdir -p new/deep && echo x > new/deep/f && chmod 600 up && mv up down && rm down',
    )
    await sees('create new', 'create new/deep', 'create new/deep/f', 'write new/deep/f')
    await sees('chmod up', 'rename up', 'create down', 'remove down')
    assert.ok(seen.every((event) => !event.includes('warren')))
    assert.ok(entries.includes('/home/user/watched/new/deep'))
    await handle.stop()
    await assert.rejects(
      sandbox.files.watchDir('plain.txt', () => {}),
      client.InvalidArgumentError,
    )
    await assert.rejects(
      sandbox.files.watchDir('no-such', () => {}),
      client.NotFoundError,
    )
  })

  it('returns signed URLs for one file, one operation and a limited time', async () => {
    await sandbox.files.write('signed.txt', 'secret')
    const options = { useSignatureExpiration: 600 }
    const download = await sandbox.downloadUrl('signed.txt', options)
    const read = await fetch(download)
    assert.deepEqual([read.status, await read.text()], [200, 'secret'])
    assert.equal((await fetch(await sandbox.downloadUrl('signed.txt'))).status, 200)
    const upload = await sandbox.uploadUrl('uploaded.txt', { ...options, user: 'user' })
    const form = new FormData()
    form.append('file', new Blob(['sent']), 'any')
    assert.equal((await fetch(upload, { method: 'POST', body: form })).status, 200)
    assert.equal(await sandbox.files.read('uploaded.txt'), 'sent')
    for (const forged of [
      download.replace('signed.txt', 'uploaded.txt'),
      upload.replace('uploaded.txt', 'signed.txt'),
      download.replace(/signature_expiration=\d+/, 'signature_expiration=9999999999'),
    ]) {
      assert.equal((await fetch(forged)).status, 401, forged)
    }
    assert.equal((await fetch(upload)).status, 401, 'a signature to write must not read')
    const expired = await sandbox.downloadUrl('signed.txt', { useSignatureExpiration: -10 })
    const refused = await fetch(expired)
    assert.deepEqual(
      [refused.status, await refused.json()],
      [401, { code: 401, message: 'signature is already expired' }],
    )
  })

  it('works with git through the helpers of the client', async () => {
    const { git } = sandbox
    await git.init('/home/user/repo', { initialBranch: 'main' })
    await git.configureUser('Somebody', 'somebody@example.com')
    await sandbox.files.write('repo/readme', 'hello')
    assert.equal((await git.status('/home/user/repo')).hasChanges, true)
    await git.add('/home/user/repo')
    await git.commit('/home/user/repo', 'first')
    assert.equal((await git.status('/home/user/repo')).isClean, true)
    await git.createBranch('/home/user/repo', 'side')
    assert.deepEqual((await git.branches('/home/user/repo')).branches.sort(), ['main', 'side'])
    await git.clone('/home/user/repo', { path: '/home/user/copy' })
    assert.equal(await sandbox.files.read('copy/readme'), 'hello')
  })
}
