import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openLayout } from '../../images/oci-layout.ts'
import { projectFolder } from '../project/project-folder.ts'
import { writeImage } from './container-image.ts'
import { bom, debianComponent, gvisorComponents, npmComponent, releasedPackages } from './sbom.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-release-test-'))
after(() => rmSync(folder, { recursive: true }))

const lock = JSON.parse(readFileSync(join(projectFolder, 'package-lock.json'), 'utf8'))

test('a release contains the files that the server needs, and no files for development or other machines', () => {
  const names = releasedPackages(lock, (path) => existsSync(join(projectFolder, path))).map(
    ({ name }) => name,
  )
  for (const needed of ['fastify', 'esbuild', 'pino', 'prom-client', `node-linux-${process.arch}`]) {
    assert.ok(names.includes(needed), needed)
  }
  for (const other of ['typescript', '@biomejs/biome', '@e2b/cli', 'playwright-core']) {
    assert.ok(!names.includes(other), other)
  }
  assert.deepEqual(
    releasedPackages({ packages: { 'node_modules/a': { version: '1' } } }, () => false),
    [],
  )
})

test('the bill of materials names each package once, with its checksum', () => {
  const integrity = `sha512-${Buffer.alloc(64, 1).toString('base64')}`
  const one = { path: 'node_modules/@a/b', name: '@a/b', version: '1.0.0', license: 'MIT', integrity }
  const gvisor = gvisorComponents({ version: 'v1', sha256: '02' }, [{ path: 'example.com/m', version: 'v2' }])
  const git = { name: 'git', version: '1:2.39', architecture: 'amd64', source: 'git' }
  const { components } = bom('0.1.0', '2026-01-01T00:00:00Z', [
    ...[one, { ...one, path: 'x/node_modules/@a/b' }].map(npmComponent),
    ...gvisor,
    debianComponent(git),
  ]) as {
    components: { purl: string; hashes?: { content: string }[] }[]
  }
  assert.deepEqual(
    components.map(({ purl, hashes }) => [purl, hashes?.[0]?.content]),
    [
      ['pkg:deb/debian/git@1%3A2.39?arch=amd64', undefined],
      ['pkg:golang/example.com/m@v2', undefined],
      ['pkg:golang/gvisor.dev/gvisor@v1', '02'],
      ['pkg:npm/%40a/b@1.0.0', '01'.repeat(64)],
    ],
  )
})

test('an image can be read by OCI tools, and by Docker', async () => {
  const root = join(folder, 'root')
  mkdirSync(join(root, 'opt'), { recursive: true })
  writeFileSync(join(root, 'opt/file'), 'hello')
  const out = join(folder, 'image.tar')
  await writeImage({ root, version: '0.1.0', out, createdAt: '2026-01-01T00:00:00Z' })
  const unpacked = join(folder, 'unpacked')
  mkdirSync(unpacked)
  assert.equal(spawnSync('tar', ['-xf', out, '-C', unpacked]).status, 0)
  const [forDocker] = JSON.parse(readFileSync(join(unpacked, 'manifest.json'), 'utf8'))
  assert.deepEqual(forDocker.RepoTags, ['warren:0.1.0'])
  for (const path of [forDocker.Config, ...forDocker.Layers]) {
    const digest = createHash('sha256')
      .update(readFileSync(join(unpacked, path)))
      .digest('hex')
    assert.equal(path, `blobs/sha256/${digest}`)
  }
  const { bytes } = await openLayout(unpacked, ['0.1.0']).document(undefined)
  assert.equal(JSON.parse(bytes.toString()).layers.length, 1)
  const config = JSON.parse(readFileSync(join(unpacked, forDocker.Config), 'utf8'))
  assert.deepEqual([config.config.Entrypoint, config.config.Cmd], [['/opt/warren/bin/warren'], ['start']])
  const listed = spawnSync('tar', ['-tf', join(unpacked, forDocker.Layers[0])], { encoding: 'utf8' }).stdout
  assert.match(listed, /^\.\/opt\/file$/m)
})
