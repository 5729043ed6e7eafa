import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  lstatSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import {
  loadNode,
  loadSecretKey,
  loadSecrets,
  openDataFolder,
  readServerFile,
  removeServerFile,
  saveServerFile,
} from './data-folder.ts'
import { lockDataFolder } from './data-lock.ts'

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'warren-data-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'data')
}

const modeOf = (path: string) => statSync(path).mode & 0o777

test('the data folder and its secrets are for root alone, also where an earlier release left them open', async (t) => {
  const folder = folderFor(t)
  const paths = await openDataFolder(folder)
  const folders = [paths.root, paths.templates, paths.sandboxes, paths.runtimes, paths.snapshots]
  for (const each of folders) chmodSync(each, 0o711)
  await openDataFolder(folder)
  for (const each of folders) assert.equal(modeOf(each), 0o700, each)
  const secrets = await loadSecrets(paths)
  assert.equal(modeOf(paths.secrets), 0o600)
  assert.match(secrets.seed, /^[0-9a-f]{64}$/)
  assert.notEqual(secrets.seed, secrets.adminToken)
})

test('a link to the data folder is the data folder', async (t) => {
  const folder = folderFor(t)
  const paths = await openDataFolder(folder)
  symlinkSync(folder, `${folder}-link`)
  assert.equal((await openDataFolder(`${folder}-link`)).root, paths.root)
  assert.equal(paths.root, realpathSync(folder))
})

test('secrets are generated once, and a file that others could read is made private again', async (t) => {
  const paths = await openDataFolder(folderFor(t))
  const first = await loadSecrets(paths)
  chmodSync(paths.secrets, 0o644)
  assert.deepEqual(await loadSecrets(paths), first)
  assert.equal(modeOf(paths.secrets), 0o600)
})

test('the node id is generated once, and only a folder that served before adopts rows without an owner', async (t) => {
  const fresh = await openDataFolder(folderFor(t))
  const node = await loadNode(fresh)
  assert.match(node.nodeID, /^[0-9a-f]{32}$/)
  await loadSecrets(fresh)
  assert.deepEqual(await loadNode(fresh), { ...node, adopts: false })
  const old = await openDataFolder(folderFor(t))
  await loadSecrets(old)
  assert.equal((await loadNode(old)).adopts, true)
  assert.notEqual((await loadNode(old)).nodeID, node.nodeID)
})

test('an unreadable secrets file does not count as absent', async (t) => {
  const paths = await openDataFolder(folderFor(t))
  symlinkSync(paths.secrets, paths.secrets)
  await assert.rejects(loadSecrets(paths), /secrets\.json cannot be read: ELOOP/)
  assert.ok(lstatSync(paths.secrets).isSymbolicLink())
})

test('a damaged secrets file is not overwritten, and the error names it', async (t) => {
  const paths = await openDataFolder(folderFor(t))
  writeFileSync(paths.secrets, '{"seed":')
  await assert.rejects(loadSecrets(paths), /secrets\.json is damaged/)
})

test('the key of secrets is generated once, is readable by its owner only, and differs from all other secrets', async (t) => {
  const paths = await openDataFolder(folderFor(t))
  const key = await loadSecretKey(paths)
  assert.match(key, /^[0-9a-f]{64}$/)
  assert.ok(!Object.values(await loadSecrets(paths)).includes(key))
  chmodSync(paths.secretKey, 0o644)
  assert.equal(await loadSecretKey(paths), key)
  assert.equal(modeOf(paths.secretKey), 0o600)
})

test('a damaged key of secrets is not overwritten, and the error names the file and the remedy but not its content', async (t) => {
  const paths = await openDataFolder(folderFor(t))
  for (const damaged of [
    '',
    '{"key":',
    '{}',
    'null',
    '{"key":"abcd"}',
    '{"key":abcd}',
    `{"key":"${'g'.repeat(64)}"}`,
  ]) {
    writeFileSync(paths.secretKey, damaged)
    await assert.rejects(loadSecretKey(paths), (error: Error) => {
      assert.match(error.message, /secret-key\.json is damaged/)
      return !error.message.includes('abcd') && !error.message.includes('gggg')
    })
    assert.equal(readFileSync(paths.secretKey, 'utf8'), damaged)
  }
})

test('the server file exists while the server listens, and no longer', async (t) => {
  const paths = await openDataFolder(folderFor(t))
  const server = { url: 'http://127.0.0.1:3000', domain: null, tlsCert: null, pid: 1, startedAt: 2 }
  await saveServerFile(paths, server)
  assert.deepEqual(await readServerFile(paths), server)
  assert.equal(modeOf(paths.server), 0o600)
  await removeServerFile(paths)
  assert.equal(await readServerFile(paths), undefined)
})

test('a folder that cannot be created is rejected by name', async () => {
  await assert.rejects(openDataFolder('/dev/null/warren'), /Cannot make the data folder \/dev\/null\/warren/)
})

test('a second Warren is rejected while the first one holds the folder', async (t) => {
  const { lock } = await openDataFolder(folderFor(t))
  const locked = lockDataFolder(lock)
  assert.throws(() => lockDataFolder(lock), new RegExp(`already running .*process ${process.pid}`))
  locked.release()
  lockDataFolder(lock).release()
})

test('a lock whose holder was killed does not block a start', async (t) => {
  const { lock } = await openDataFolder(folderFor(t))
  const module = new URL('./data-lock.ts', import.meta.url).href
  const script = `const { lockDataFolder } = await import(${JSON.stringify(module)}); lockDataFolder(${JSON.stringify(lock)}); console.log('held'); setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script])
  await once(child.stdout, 'data')
  assert.throws(() => lockDataFolder(lock), new RegExp(`process ${child.pid}`))
  child.kill('SIGKILL')
  await once(child, 'close')
  lockDataFolder(lock).release()
})
