import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { downloadPinned } from './download.ts'
import { downloadGo, findGo, goVersion } from './go-toolchain.ts'

function folderFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'warren-go-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

function putGo(folder: string, version: string): string {
  const path = join(folder, 'go/bin/go')
  mkdirSync(join(folder, 'go/bin'), { recursive: true })
  writeFileSync(path, `#!/bin/sh\necho "go version ${version} linux/amd64 ($GOTOOLCHAIN)"\n`, { mode: 0o755 })
  return path
}

/** A server that has an archive with a stand-in for Go. */
async function serveGo(t: TestContext, folder: string) {
  putGo(join(folder, 'packed'), goVersion)
  const file = join(folder, 'packed.tar.gz')
  execFileSync('tar', ['-czf', file, '-C', join(folder, 'packed'), 'go'])
  const archive = readFileSync(file)
  const server = createServer((_, response) => response.end(archive)).listen(0, '127.0.0.1')
  await new Promise((listening) => server.once('listening', listening))
  t.after(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return { url, bytes: archive.length, sha256: createHash('sha256').update(archive).digest('hex') }
}

test("the machine's Go is used only if it can download the pinned version", async (t) => {
  const folder = folderFor(t)
  const pinned = await findGo(putGo(folder, goVersion))
  assert.equal(pinned?.environment.GOTOOLCHAIN, goVersion)
  assert.equal(await findGo(putGo(folder, 'go1.19.8')), undefined)
  assert.equal(await findGo(putGo(folder, `${goVersion}rc1`)), undefined)
  assert.equal(await findGo(join(folder, 'no-go')), undefined)
})

test('Go is downloaded, and keeps all its files in its own folder', async (t) => {
  const folder = folderFor(t)
  const target = join(folder, 'target')
  const go = await downloadGo(target, () => {}, await serveGo(t, folder))
  assert.match(execFileSync(go.program, { encoding: 'utf8' }), new RegExp(goVersion))
  for (const name of ['GOPATH', 'GOCACHE']) assert.ok(go.environment[name]?.startsWith(`${target}/`), name)
  assert.equal(existsSync(join(target, 'go.tar.gz')), false)
})

test('a Go with another checksum, or with more bytes, is not unpacked', async (t) => {
  const folder = folderFor(t)
  const served = await serveGo(t, folder)
  const wrong = { ...served, sha256: '0'.repeat(64) }
  await assert.rejects(
    downloadGo(join(folder, 'a'), () => {}, wrong),
    /wrong checksum/,
  )
  const short = { ...served, bytes: served.bytes - 1 }
  await assert.rejects(
    downloadGo(join(folder, 'b'), () => {}, short),
    /sent more than/,
  )
  for (const name of ['a', 'b']) assert.equal(existsSync(join(folder, name, 'go')), false)
})

test('it is downloaded through the proxy of the environment, and a proxy that does not answer is named', async (t) => {
  const folder = folderFor(t)
  const served = await serveGo(t, folder)
  // Only the proxy can answer for this host.
  const archive = { ...served, name: 'Go', url: 'http://go.invalid/go.tar.gz' }
  const file = join(folder, 'got.tar.gz')
  await downloadPinned(archive, file, () => {}, { http_proxy: served.url })
  assert.equal(createHash('sha256').update(readFileSync(file)).digest('hex'), served.sha256)
  const elsewhere = { ...archive, url: served.url }
  await downloadPinned(elsewhere, file, () => {}, { http_proxy: 'http://127.0.0.1:9', no_proxy: '127.0.0.1' })
  await assert.rejects(
    downloadPinned(archive, file, () => {}, { http_proxy: 'http://me:secret@127.0.0.1:9' }),
    ({ message }: Error) =>
      /ECONNREFUSED.*through the proxy http:\/\/127\.0\.0\.1:9,/.test(message) && !message.includes('secret'),
  )
})

test('redirects are followed, and not for ever', async (t) => {
  const folder = folderFor(t)
  const served = await serveGo(t, folder)
  let asked = 0
  const server = createServer((request, response) => {
    asked++
    const location = request.url === '/once' ? served.url : '/again'
    response.writeHead(302, { location }).end()
  }).listen(0, '127.0.0.1')
  await new Promise((listening) => server.once('listening', listening))
  t.after(() => server.close())
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const download = (path: string) =>
    downloadPinned({ ...served, name: 'Go', url: `${base}${path}` }, join(folder, 'got'), () => {}, {})
  await download('/once')
  await assert.rejects(download('/again'), /the server answered 302/)
  assert.equal(asked, 7)
})
