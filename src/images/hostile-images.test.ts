/** Images and registries that mean harm: nothing of them stays, nothing outside is asked, the reason is said. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { isAppError } from '../lib/app-error.ts'
import { headerOf, layerOf, type MadeLayer, sha256, tarOf } from './archive-fixture.ts'
import type { ImagesOptions } from './images.ts'
import { testImages, testRegistry } from './images-fixture.ts'
import { addImage, addManifest, fileLayer, type MadeImage, manifestType } from './registry-fixture.ts'

type Manifest = Record<string, unknown> & {
  layers: Record<string, unknown>[]
  config: Record<string, unknown>
}

async function refusal(
  t: TestContext,
  image: MadeImage,
  options: Partial<ImagesOptions> = {},
): Promise<string> {
  const registry = await testRegistry(t)
  addImage(registry, 'latest', image)
  const { pull, images, folder } = await testImages(t, options)
  const error = await pull(`${registry.host}/evil`).then(
    () => undefined,
    (error) => error as Error,
  )
  assert.ok(isAppError(error), `not rejected with the reason: ${error}`)
  await images.close()
  assert.deepEqual(readdirSync(join(folder, 'layers')), [], 'something was left behind')
  return `${error.code}: ${error.message}`
}

const changed = (change: (manifest: Manifest) => void): MadeImage => ({
  layers: [fileLayer('a', 'a')],
  change: (manifest) => change(manifest as Manifest),
})

test('a layer that does not match its digest is rejected', async (t) => {
  const other = gzipSync(tarOf([{ name: 'other' }]))
  const registry = await testRegistry(t)
  const layer = fileLayer('a', 'a')
  addImage(registry, 'latest', { layers: [layer] })
  const sameSize = Buffer.concat([other, Buffer.alloc(layer.blob.length)]).subarray(0, layer.blob.length)
  registry.blobs.set(sha256(layer.blob), sameSize)
  const { pull, images, folder } = await testImages(t)
  await assert.rejects(pull(`${registry.host}/x`), /does not match its digest|damaged/)
  await images.close()
  assert.deepEqual(readdirSync(join(folder, 'layers')), [])
})

test('a layer whose archive differs from the configuration is rejected', async (t) => {
  const layer: MadeLayer = { ...fileLayer('a', 'a'), diffID: sha256('another') }
  assert.match(
    await refusal(t, { layers: [layer] }),
    /unprocessable: An unpacked layer does not match its digest/,
  )
})

test('a manifest that differs from the pinned or announced digest is rejected', async (t) => {
  const registry = await testRegistry(t)
  const digest = addImage(registry, 'latest', { layers: [fileLayer('a', 'a')] })
  const other = registry.manifests.get(addImage(registry, 'other', { layers: [fileLayer('b', 'b')] }))!
  registry.manifests.set(digest, other)
  const { pull } = await testImages(t)
  await assert.rejects(pull(`${registry.host}/x@${digest}`), /manifest .* does not match its digest/)
  registry.intercept = (request, response) =>
    /manifests/.test(request.url!) &&
    !!response.writeHead(200, { 'Docker-Content-Digest': digest }).end(other.bytes)
  await assert.rejects(pull(`${registry.host}/x:other`), /manifest .* does not match its digest/)
})

test('a configuration that does not match its digest is rejected', async (t) => {
  const registry = await testRegistry(t)
  addImage(registry, 'latest', { layers: [] })
  for (const [digest, blob] of registry.blobs)
    registry.blobs.set(digest, Buffer.from(blob.toString().replace('linux', 'xunil')))
  const { pull } = await testImages(t)
  await assert.rejects(pull(`${registry.host}/x`), /configuration .* does not match its digest/)
})

const hostileManifests: Record<string, [(manifest: Manifest) => void, RegExp]> = {
  'a foreign layer': [
    (m) => Object.assign(m.layers[0]!, { urls: ['http://169.254.169.254/latest/'] }),
    /outside its registry/,
  ],
  'a foreign type': [
    (m) =>
      Object.assign(m.layers[0]!, { mediaType: 'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip' }),
    /outside its registry/,
  ],
  'an encrypted layer': [
    (m) =>
      Object.assign(m.layers[0]!, { mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip+encrypted' }),
    /cannot be unpacked/,
  ],
  '100 000 layers': [
    (m) => Object.assign(m, { layers: Array.from({ length: 100_000 }, () => ({ mediaType: 'a' })) }),
    /100000 layers/,
  ],
  'too many layers': [
    (m) => Object.assign(m, { layers: Array.from({ length: 128 }, () => m.layers[0]) }),
    /128 layers/,
  ],
  'more layers than its configuration': [(m) => m.layers.push(m.layers[0]!), /has 2 layers/],
  'a digest with a path': [
    (m) => Object.assign(m.layers[0]!, { digest: 'sha256:../../../etc/passwd' }),
    /without type, digest or size/,
  ],
  'a size that is no number': [
    (m) => Object.assign(m.layers[0]!, { size: '5' }),
    /without type, digest or size/,
  ],
  'a size that is too small': [
    (m) => Object.assign(m.layers[0]!, { size: 10 }),
    /larger than its declared 10 bytes/,
  ],
  'a size past the limit': [(m) => Object.assign(m.layers[0]!, { size: 2 ** 50 }), /payload_too_large/],
  'a configuration of a gigabyte': [
    (m) => Object.assign(m.config, { size: 2 ** 30 }),
    /configuration of 1073741824/,
  ],
  'a chart and no image': [
    (m) => Object.assign(m.config, { mediaType: 'application/vnd.cncf.helm.config.v1+json' }),
    /instead of a container image/,
  ],
  'layers and manifests at once': [(m) => Object.assign(m, { manifests: [] }), /at once/],
  'the format of 2015': [(m) => Object.assign(m, { schemaVersion: 1 }), /schema 1/],
}

for (const [what, [change, reason]] of Object.entries(hostileManifests)) {
  test(`an image with ${what} is rejected with the reason`, async (t) => {
    assert.match(await refusal(t, changed(change)), reason)
  })
}

test('a signed manifest of 2015 is reported by its type', async (t) => {
  const registry = await testRegistry(t)
  addManifest(registry, 'old', { name: 'x' }, 'application/vnd.docker.distribution.manifest.v1+prettyjws')
  const { pull } = await testImages(t)
  await assert.rejects(pull(`${registry.host}/x:old`), /schema 1/)
})

test('an endless manifest is cut off', async (t) => {
  const registry = await testRegistry(t)
  registry.intercept = (request, response) => {
    if (!/manifests/.test(request.url!)) return false
    const write = () => {
      while (!response.destroyed && response.write(Buffer.alloc(65_536, ' '))) {}
    }
    response.on('drain', write).on('error', () => {})
    write()
    return true
  }
  const { pull } = await testImages(t)
  await assert.rejects(pull(`${registry.host}/x`), /more than 4194304 bytes/)
})

test('an index that points to itself is rejected', async (t) => {
  const registry = await testRegistry(t)
  const index = (digest: string) => ({
    schemaVersion: 2,
    manifests: [{ mediaType: 'application/vnd.oci.image.index.v1+json', digest, size: 1 }],
  })
  let digest = addManifest(
    registry,
    'd0',
    index(sha256('nothing')),
    'application/vnd.oci.image.index.v1+json',
  )
  for (let i = 1; i < 5; i++)
    digest = addManifest(registry, `d${i}`, index(digest), 'application/vnd.oci.image.index.v1+json')
  const { pull } = await testImages(t)
  await assert.rejects(pull(`${registry.host}/x@${digest}`), /index of indexes/)
})

test('a small layer that unpacks to a large one is stopped at the limit', async (t) => {
  const bomb = layerOf(tarOf([{ name: 'zeros', content: Buffer.alloc(50 << 20) }]))
  assert.ok(bomb.blob.length < 100_000)
  // Read to its end, it would be rejected for its digest.
  const layers = [{ ...bomb, diffID: sha256('another archive') }]
  assert.match(await refusal(t, { layers }, { maxImageBytes: 10 << 20 }), /^payload_too_large: .*limit/)
})

test('the limit is for the image, not for each of its layers', async (t) => {
  const layers = ['a', 'b', 'c', 'd'].map((name) =>
    layerOf(tarOf([{ name, content: Buffer.alloc(4 << 20, name) }])),
  )
  const registry = await testRegistry(t)
  addImage(registry, 'latest', { layers })
  const { pull } = await testImages(t, { maxImageBytes: 10 << 20 })
  await assert.rejects(pull(`${registry.host}/x`), { code: 'payload_too_large' })
})

test('an entry that announces a terabyte allocates none', async (t) => {
  const archive = tarOf([], Buffer.concat([headerOf({ name: 'huge' }, 2 ** 33 - 1), Buffer.alloc(1024)]))
  assert.match(await refusal(t, { layers: [layerOf(archive)] }), /ends in the middle/)
  const sparse = tarOf([
    { name: 'huge', pax: { 'GNU.sparse.major': '1', 'GNU.sparse.realsize': String(2 ** 40) } },
  ])
  assert.match(await refusal(t, { layers: [layerOf(sparse)] }), /sparse/)
})

test('an archive with a path that leads outside is rejected, wherever the entry is', async (t) => {
  const evil = layerOf(tarOf([{ name: 'good' }, { name: '../../../../../../tmp/warren-evil', content: 'x' }]))
  assert.match(await refusal(t, { layers: [evil] }), /leads out of it/)
})

test('more entries than a layer may have are rejected', async (t) => {
  const many = layerOf(tarOf(Array.from({ length: 50 }, (_, i) => ({ name: `f${i}` }))))
  assert.match(await refusal(t, { layers: [many] }, { maxImageEntries: 40 }), /more than 40 entries/)
})

test('the limit of entries is for the image, and a rejected image leaves nothing on the disk', async (t) => {
  const registry = await testRegistry(t)
  const layers = ['a', 'b', 'c', 'd'].map((name) =>
    layerOf(tarOf(Array.from({ length: 15 }, (_, i) => ({ name: `${name}${i}` })))),
  )
  addImage(registry, 'latest', { layers })
  const { pull, folder, images } = await testImages(t, { maxImageEntries: 40, parallelLayers: 1 })
  await assert.rejects(pull(`${registry.host}/x`), {
    code: 'payload_too_large',
    message: /more than 40 entries/,
  })
  await images.close()
  const left = readdirSync(join(folder, 'layers'))
  assert.ok(left.every((name) => !name.startsWith('.')) && left.length < layers.length, left.join(' '))
})

test('damaged compressed data is rejected with the reason', async (t) => {
  const whole = gzipSync(tarOf([{ name: 'a', content: 'x'.repeat(5000) }]))
  for (const blob of [whole.subarray(0, -20), Buffer.concat([whole.subarray(0, 30), Buffer.alloc(50)])]) {
    const layer = { blob, mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip', diffID: sha256('x') }
    assert.match(await refusal(t, { layers: [layer] }), /^unprocessable: A layer cannot be unpacked/)
  }
})

test('a manifest that is no JSON, or not an object, is rejected with the reason', async (t) => {
  const registry = await testRegistry(t)
  const { pull } = await testImages(t)
  for (const text of ['<html>', '[]', 'null', '5']) {
    registry.manifests.set('latest', { bytes: Buffer.from(text), mediaType: manifestType })
    await assert.rejects(pull(`${registry.host}/x`), { code: 'unprocessable' })
  }
})
