import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { layerOf, sha256, tarOf } from './archive-fixture.ts'
import { testImages } from './images-fixture.ts'
import { locationOf, parseMirrors } from './mirrors.ts'
import { formatReference, parseReference } from './reference.ts'
import { addImage, type FakeRegistry } from './registry-fixture.ts'

function target(mirrors: Record<string, string>, name: string): string {
  const location = locationOf(parseReference(name), parseMirrors(mirrors))
  return location.kind === 'folder'
    ? `${location.folder} ${location.names}`
    : formatReference(location.reference)
}

test('the longest prefix wins, and it ends where a name part ends', () => {
  const mirrors = {
    '*': 'all.example/m',
    'docker.io': 'hub.example',
    debian: 'deb.example/d',
    'docker.io/team': 'team.example',
  }
  assert.equal(target(mirrors, 'debian:12'), 'deb.example/d:12')
  assert.equal(target(mirrors, 'ubuntu'), 'hub.example/library/ubuntu:latest')
  assert.equal(target(mirrors, 'team/x'), 'team.example/x:latest')
  assert.equal(target(mirrors, 'teammate/x'), 'hub.example/teammate/x:latest')
  assert.equal(target(mirrors, 'debianx'), 'hub.example/library/debianx:latest')
  assert.equal(target(mirrors, 'ghcr.io/a/b'), 'all.example/m/ghcr.io/a/b:latest')
  assert.equal(target({}, 'debian'), 'docker.io/library/debian:latest')
})

test('an invalid mirror is rejected when it is read', () => {
  for (const bad of ['', 'folder:', 'nohost', 'UPPER.example/X', 'https://host.example/x']) {
    assert.throws(() => parseMirrors({ 'docker.io': bad }), { code: 'invalid_argument' }, bad)
  }
})

test('an unreadable login of a mirror is not quoted', () => {
  for (const bad of [
    'hush@host.example',
    ':hush@host.example',
    'me:@host.example',
    'me:hush%@h.example',
    'a:hush/1@h.io',
  ]) {
    assert.throws(
      () => parseMirrors({ 'docker.io': bad }),
      ({ message }: Error) =>
        /mirror of docker.io must be user:password@/.test(message) && !/hush/.test(message),
      bad,
    )
  }
})

/** Writes images as an OCI layout: each under the name it is given. */
function layout(t: TestContext, names: Record<string, string | undefined>): string {
  const folder = mkdtempSync(join(tmpdir(), 'warren-layout-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const made: Pick<FakeRegistry, 'blobs' | 'manifests'> = { blobs: new Map(), manifests: new Map() }
  const manifests = Object.entries(names).map(([content, name]) => {
    const layers = [layerOf(tarOf([{ name: 'f', content }]))]
    const digest = addImage(made as FakeRegistry, content, { layers })
    const { bytes, mediaType } = made.manifests.get(digest)!
    made.blobs.set(digest, bytes)
    const annotations = name === undefined ? {} : { 'org.opencontainers.image.ref.name': name }
    return { mediaType, digest, size: bytes.length, annotations }
  })
  mkdirSync(join(folder, 'blobs/sha256'), { recursive: true })
  for (const [digest, blob] of made.blobs) writeFileSync(join(folder, 'blobs', ...digest.split(':')), blob)
  writeFileSync(join(folder, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }))
  writeFileSync(join(folder, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  return folder
}

const diffID = (content: string) => sha256(tarOf([{ name: 'f', content }]))

test('a folder with several images serves each by its name, without a network', async (t) => {
  const folder = layout(t, {
    whole: 'docker.io/library/debian:12',
    short: 'ubuntu:24.04',
    team: 'oven/bun:1',
    tag: '3.11',
  })
  const lookup = async () => assert.fail('a name was looked up')
  const { pull } = await testImages(t, {
    mirrors: { '*': `folder:${folder}`, python: `folder:${folder}` },
    lookup,
  })
  assert.deepEqual((await pull('debian:12')).layers, [diffID('whole')])
  assert.deepEqual((await pull('ubuntu:24.04')).layers, [diffID('short')])
  assert.deepEqual((await pull('oven/bun:1')).layers, [diffID('team')])
  const byTag = await pull('python:3.11')
  assert.deepEqual(byTag.layers, [diffID('tag')])
  assert.deepEqual((await pull(`python@${byTag.digest}`)).layers, [diffID('tag')])
  await assert.rejects(
    pull('node:3.11'),
    /no image docker.io\/library\/node:3.11; there is: docker.io\/library\/debian:12,/,
  )
})

test('a folder with one unnamed image serves it for any name', async (t) => {
  const { pull } = await testImages(t, { mirrors: { debian: `folder:${layout(t, { only: undefined })}` } })
  assert.deepEqual((await pull('debian:12')).layers, [diffID('only')])
})

test('a damaged blob in a folder is found', async (t) => {
  const folder = layout(t, { x: '1' })
  const { pull } = await testImages(t, { mirrors: { x: `folder:${folder}` } })
  const blob = layerOf(tarOf([{ name: 'f', content: 'x' }])).blob
  writeFileSync(join(folder, 'blobs', ...sha256(blob).split(':')), Buffer.alloc(blob.length, 1))
  await assert.rejects(pull('x:1'), { code: 'unprocessable' })
})

test('a folder that is no OCI layout, or lacks a blob, is reported', async (t) => {
  const folder = layout(t, { x: '1' })
  const { pull } = await testImages(t, { mirrors: { x: `folder:${folder}`, y: 'folder:/nonexistent' } })
  await assert.rejects(pull('y:1'), /no index.json/)
  const blob = layerOf(tarOf([{ name: 'f', content: 'x' }])).blob
  rmSync(join(folder, 'blobs', ...sha256(blob).split(':')))
  await assert.rejects(pull('x:1'), { code: 'not_found' })
})
