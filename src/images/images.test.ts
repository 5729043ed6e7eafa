import assert from 'node:assert/strict'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isAppError } from '../lib/app-error.ts'
import { ManualClock } from '../lib/clock.ts'
import { layerOf, sha256, tarOf } from './archive-fixture.ts'
import { testImages, testRegistry } from './images-fixture.ts'
import { addImage, addManifest, type FakeRegistry, fileLayer, indexType } from './registry-fixture.ts'

const noise = (size: number) => Buffer.from(Array.from({ length: size }, (_, i) => (i * i * 7919 + i) >> 3))
const blobRequests = (registry: FakeRegistry, blob: Buffer) =>
  registry.requests.filter(({ path }) => path.endsWith(sha256(blob)))
const rejection = async (work: Promise<unknown>): Promise<Error> => {
  const error = await work.then(
    () => undefined,
    (error) => error as Error,
  )
  assert.ok(error, 'it was not refused')
  return error
}

test('a pulled image has its layers in order, its digest and its configuration', async (t) => {
  const registry = await testRegistry(t)
  const layers = [
    fileLayer('a', 'one'),
    layerOf(tarOf([{ name: 'b', content: 'two' }]), 'zstd'),
    layerOf(tarOf([{ name: 'c' }]), 'plain'),
  ]
  const config = { Env: ['PATH=/bin:/x', 'A=b=c', 'junk'], User: '1000:5', WorkingDir: '/srv' }
  const digest = addImage(registry, '1.0', { layers, config })
  const { pull, images, lines } = await testImages(t)
  const pulled = await pull(`${registry.host}/team/app:1.0`)
  assert.deepEqual(pulled, {
    digest,
    layers: layers.map(({ diffID }) => diffID),
    config: { env: { PATH: '/bin:/x', A: 'b=c' }, user: '1000:5', workdir: '/srv' },
  })
  const [first, second, third] = images.layerFolders(pulled.layers)
  assert.equal(readFileSync(join(first!, 'a'), 'utf8'), 'one')
  assert.equal(readFileSync(join(second!, 'b'), 'utf8'), 'two')
  assert.ok(existsSync(join(third!, 'c')))
  assert.equal(lines.filter((line) => line.endsWith(': unpacked')).length, 3)
  assert.deepEqual((await pull(`${registry.host}/team/app@${digest}`)).layers, pulled.layers)
  const digests = ['team/app:1.0', `team/app@${digest}`].map((name) =>
    images.digestOf(`${registry.host}/${name}`),
  )
  assert.deepEqual(await Promise.all(digests), [digest, digest])
  assert.equal(lines.filter((line) => line.endsWith(': already here')).length, 3)
  for (const { blob } of layers) assert.equal(blobRequests(registry, blob).length, 1)
})

test('of several platforms that of this machine is chosen', async (t) => {
  const registry = await testRegistry(t)
  const manifests = ['amd64', 'arm64', 's390x'].map((architecture) => {
    const layers = [fileLayer('arch', architecture)]
    const digest = addImage(registry, architecture, { layers, platform: { architecture } })
    const size = registry.manifests.get(digest)!.bytes.length
    return {
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      digest,
      size,
      platform: { os: 'linux', architecture },
    }
  })
  addManifest(registry, 'multi', { schemaVersion: 2, mediaType: indexType, manifests }, indexType)
  const inner = registry.manifests.get('multi')!.bytes
  const outer = [{ mediaType: indexType, digest: sha256(inner), size: inner.length }]
  addManifest(registry, 'nested', { schemaVersion: 2, mediaType: indexType, manifests: outer }, indexType)
  for (const architecture of ['amd64', 'arm64']) {
    const { pull, images } = await testImages(t, { platform: { os: 'linux', architecture } })
    for (const tag of ['multi', 'nested']) {
      const { layers, digest } = await pull(`${registry.host}/x:${tag}`)
      assert.equal(readFileSync(join(images.layerFolders(layers)[0]!, 'arch'), 'utf8'), architecture)
      assert.equal(digest, manifests.find(({ platform }) => platform.architecture === architecture)!.digest)
    }
  }
  const { pull } = await testImages(t, { platform: { os: 'linux', architecture: 'riscv64' } })
  const error = await rejection(pull(`${registry.host}/x:multi`))
  assert.match(
    error.message,
    /not made for linux\/riscv64; it is made for: linux\/amd64, linux\/arm64, linux\/s390x/,
  )
  assert.match((await rejection(pull(`${registry.host}/x:arm64`))).message, /is made for linux\/arm64/)
})

test('a broken connection is opened again and continues where it broke', async (t) => {
  const registry = await testRegistry(t)
  const layer = layerOf(tarOf([{ name: 'big', content: noise(300_000) }]), 'plain')
  addImage(registry, 'latest', { layers: [layer] })
  for (const honoursRange of [true, false]) {
    let breaks = 0
    registry.requests.length = 0
    registry.intercept = (request, response) => {
      if (!request.url!.endsWith(sha256(layer.blob))) return false
      if (!honoursRange && request.headers.range) return !!response.end(layer.blob)
      if (++breaks > 2) return false
      response.writeHead(200, { 'Content-Length': layer.blob.length })
      response.write(layer.blob.subarray(0, 100_000), () => response.destroy())
      return true
    }
    const { pull, images } = await testImages(t)
    const { layers } = await pull(`${registry.host}/x`)
    assert.ok(readFileSync(join(images.layerFolders(layers)[0]!, 'big')).equals(noise(300_000)))
    const ranges = blobRequests(registry, layer.blob).map(({ headers }) => headers.range)
    assert.deepEqual(ranges.slice(0, 2), [undefined, 'bytes=100000-'])
  }
})

test('a registry that falls silent half-way is asked again', async (t) => {
  const registry = await testRegistry(t)
  const layer = layerOf(tarOf([{ name: 'big', content: noise(100_000) }]), 'plain')
  addImage(registry, 'latest', { layers: [layer] })
  let silences = 0
  registry.intercept = (request, response) => {
    if (!request.url!.endsWith(sha256(layer.blob)) || silences++ > 0) return false
    response.writeHead(200, { 'Content-Length': layer.blob.length })
    response.write(layer.blob.subarray(0, 50_000))
    return true
  }
  const { pull } = await testImages(t, { silenceMs: 2000 })
  await pull(`${registry.host}/x`)
  assert.equal(blobRequests(registry, layer.blob)[1]!.headers.range, 'bytes=50000-')
})

test('a registry that fails for a moment is asked again, and one that always fails is not', async (t) => {
  const registry = await testRegistry(t)
  addImage(registry, 'latest', { layers: [fileLayer('a', 'a')] })
  let failures = 2
  registry.intercept = (_request, response) => failures-- > 0 && !!response.writeHead(503).end()
  const { pull } = await testImages(t)
  await pull(`${registry.host}/x`)
  registry.intercept = (_request, response) => !!response.writeHead(500).end()
  assert.ok(isAppError(await rejection(pull(`${registry.host}/x`)), 'unavailable'))
})

test('a missing image is reported as missing', async (t) => {
  const registry = await testRegistry(t)
  const { pull } = await testImages(t)
  const error = await rejection(pull(`${registry.host}/none:1`))
  assert.ok(isAppError(error, 'not_found') && error.message.includes(`${registry.host}/none:1`))
})

test('two pulls of one layer share its fetch, which outlives the one that aborts', async (t) => {
  const registry = await testRegistry(t)
  const layer = layerOf(tarOf([{ name: 'f', content: noise(200_000) }]), 'plain')
  addImage(registry, 'latest', { layers: [layer] })
  const { pull, lines } = await testImages(t)
  const atBlob = Promise.withResolvers<() => void>()
  registry.intercept = (request, response) => {
    if (!request.url!.endsWith(sha256(layer.blob))) return false
    response.writeHead(200, { 'Content-Length': layer.blob.length })
    response.write(layer.blob.subarray(0, 1000))
    atBlob.resolve(() => response.end(layer.blob.subarray(1000)))
    return true
  }
  const abort = new AbortController()
  const first = rejection(pull(`${registry.host}/x`, undefined, abort.signal))
  const goOn = await atBlob.promise
  const joined = Promise.withResolvers<void>()
  const second = pull(`${registry.host}/x`)
  const push = lines.push.bind(lines)
  lines.push = (...added) => {
    if (added.some((line) => line.includes('for another build'))) joined.resolve()
    return push(...added)
  }
  await joined.promise
  abort.abort(new Error('given up'))
  assert.equal((await first).message, 'given up')
  goOn()
  assert.deepEqual((await second).layers, [layer.diffID])
  assert.equal(blobRequests(registry, layer.blob).length, 1)
})

test('an aborted pull leaves nothing behind', async (t) => {
  const registry = await testRegistry(t)
  const layer = layerOf(tarOf([{ name: 'f', content: noise(200_000) }]), 'plain')
  addImage(registry, 'latest', { layers: [layer] })
  const { pull, images, folder } = await testImages(t)
  const abort = new AbortController()
  registry.intercept = (request, response) => {
    if (!request.url!.endsWith(sha256(layer.blob))) return false
    response.writeHead(200, { 'Content-Length': layer.blob.length })
    response.write(layer.blob.subarray(0, 100_000), () => abort.abort(new Error('given up')))
    return true
  }
  assert.equal((await rejection(pull(`${registry.host}/x`, undefined, abort.signal))).message, 'given up')
  await images.close()
  assert.deepEqual(readdirSync(join(folder, 'layers')), [])
})

test('the remains of a crash, and layers that never reached the disk, are removed at the start', async (t) => {
  const registry = await testRegistry(t)
  addImage(registry, 'latest', { layers: [fileLayer('a', 'a'), fileLayer('b', 'b')] })
  const before = await testImages(t)
  const { layers } = await before.pull(`${registry.host}/x`)
  await before.images.close()
  const nameOf = (layer: string) => join(before.folder, 'layers', layer.replace('sha256:', ''))
  mkdirSync(join(before.folder, 'layers', '.partial-1/root'), { recursive: true })
  // Whole to the last file when its removal began: that must not bring it back either.
  cpSync(nameOf(layers[0]!), join(before.folder, 'layers', '.removing-2'), { recursive: true })
  const facts = join(nameOf(layers[1]!), 'layer.json')
  writeFileSync(
    facts,
    JSON.stringify({ ...JSON.parse(readFileSync(facts, 'utf8')), unsyncedSince: 'an earlier boot' }),
  )
  const { images } = await testImages(t, { folder: before.folder })
  assert.deepEqual(readdirSync(join(before.folder, 'layers')), [layers[0]!.replace('sha256:', '')])
  assert.equal(images.layerFolders([layers[0]!]).length, 1)
  assert.throws(() => images.layerFolders(layers), { code: 'not_found' })
  assert.throws(() => images.layerFolders(['sha256:../../etc']), /not on this machine/)
})

test('layers that were not yet on the disk when Warren stopped are written at the next start', async (t) => {
  const registry = await testRegistry(t)
  addImage(registry, 'latest', { layers: [fileLayer('a', 'a')] })
  const before = await testImages(t)
  const { layers } = await before.pull(`${registry.host}/x`)
  await before.images.close()
  const facts = join(before.folder, 'layers', layers[0]!.replace('sha256:', ''), 'layer.json')
  const synced = readFileSync(facts, 'utf8')
  assert.equal(JSON.parse(synced).unsyncedSince, undefined)
  const unsyncedSince = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  writeFileSync(facts, JSON.stringify({ ...JSON.parse(synced), unsyncedSince }))
  const { images } = await testImages(t, { folder: before.folder })
  assert.equal(readFileSync(facts, 'utf8'), synced)
  assert.equal(images.layerFolders(layers).length, 1)
})

test('layers for other owners are not used', async (t) => {
  const registry = await testRegistry(t)
  addImage(registry, 'latest', { layers: [fileLayer('a', 'a')] })
  const before = await testImages(t)
  const { layers } = await before.pull(`${registry.host}/x`)
  await before.images.close()
  const { images } = await testImages(t, { folder: before.folder, ownerShift: 100_000 })
  assert.throws(() => images.layerFolders(layers), /not on this machine/)
})

test('pruning removes layers that are unused and not recently asked for, and none of a pull in progress', async (t) => {
  const registry = await testRegistry(t)
  const clock = new ManualClock(Date.now())
  const [used, unused, wanted] = [
    fileLayer('a', 'a'),
    fileLayer('b', noise(10_000)),
    layerOf(tarOf([{ name: 'c', content: 'c' }])),
  ]
  addImage(registry, 'both', { layers: [used, unused] })
  addImage(registry, 'later', { layers: [unused, wanted] })
  const { pull, images } = await testImages(t, { clock, keepUnusedMs: 60_000 })
  await pull(`${registry.host}/x:both`)
  const prune = (...layers: string[]) => images.prune({ layers, folders: [] }, { dryRun: false })
  assert.deepEqual(await prune(used.diffID), { count: 0, bytes: 0 })
  clock.advance(3_600_000)
  const atBlob = Promise.withResolvers<() => void>()
  registry.intercept = (request, response) => {
    if (!request.url!.endsWith(sha256(wanted.blob))) return false
    atBlob.resolve(() => response.end(wanted.blob))
    return true
  }
  const pulling = pull(`${registry.host}/x:later`)
  const goOn = await atBlob.promise
  clock.advance(3_600_000)
  assert.deepEqual(await prune(used.diffID), { count: 0, bytes: 0 })
  goOn()
  await pulling
  clock.advance(3_600_000)
  const freed = await prune(used.diffID, 'no digest')
  assert.ok(freed.count === 2 && freed.bytes >= 10_000, JSON.stringify(freed))
  assert.equal(images.layerFolders([used.diffID]).length, 1)
  for (const { diffID } of [unused, wanted])
    assert.throws(() => images.layerFolders([diffID]), /not on this machine/)
})

test('pruning keeps layers that are held, in a folder in use, or handed out a moment ago', async (t) => {
  const registry = await testRegistry(t)
  const clock = new ManualClock(Date.now())
  const names = ['held', 'folder', 'asked', 'unused']
  const layers = names.map((name) => fileLayer(name, noise(5000)))
  addImage(registry, 'all', { layers })
  const { pull, images } = await testImages(t, { clock, keepUnusedMs: 60_000 })
  await pull(`${registry.host}/x:all`)
  const [protectedLayer, folder, asked, unused] = layers.map(({ diffID }) => diffID) as [
    string,
    string,
    string,
    string,
  ]
  const release = images.protect([protectedLayer])
  const folders = images.layerFolders([folder])
  clock.advance(3_600_000)
  images.layerFolders([asked])
  const used = { layers: [], folders }
  const planned = await images.prune(used, { dryRun: true })
  assert.deepEqual([planned.count, planned.bytes >= 5000], [1, true])
  assert.deepEqual(images.missing([unused]), [])
  assert.deepEqual(await images.prune(used, { dryRun: false }), planned)
  assert.deepEqual(images.missing([protectedLayer, folder, asked, unused, 'no digest']), [
    unused,
    'no digest',
  ])
  release()
  clock.advance(60_001)
  assert.equal((await images.prune(used, { dryRun: false })).count, 2)
  assert.deepEqual(images.missing([protectedLayer, folder, asked]), [protectedLayer, asked])
})

test('equal layers are stacked once, and a layer that is hidden completely is not stacked', async (t) => {
  const registry = await testRegistry(t)
  const [a, b, opaque] = [
    fileLayer('a', 'a'),
    fileLayer('b', 'b'),
    layerOf(tarOf([{ name: '.wh..wh..opq' }, { name: 'z' }])),
  ]
  addImage(registry, 'twice', { layers: [a, b, a] })
  addImage(registry, 'opaque', { layers: [a, opaque, b] })
  const { pull } = await testImages(t)
  assert.deepEqual((await pull(`${registry.host}/x:twice`)).layers, [b.diffID, a.diffID])
  assert.deepEqual((await pull(`${registry.host}/x:opaque`)).layers, [opaque.diffID, b.diffID])
})

test('a root of this machine becomes a layer without a copy, and stays when the layer is removed', async (t) => {
  const clock = new ManualClock(Date.now())
  const { images, folder } = await testImages(t, { clock, keepUnusedMs: 60_000 })
  const root = join(folder, 'base-1')
  mkdirSync(root)
  writeFileSync(join(root, 'file'), 'kept')
  const layer = await images.adopt('base-1', root)
  const [found] = images.layerFolders([layer])
  assert.equal(realpathSync(found!), root)
  const made = statSync(join(found!, '..')).ino
  assert.equal(await images.adopt('base-1', root), layer)
  assert.equal(statSync(join(found!, '..')).ino, made, 'it was made anew')
  assert.notEqual(await images.adopt('base-2', root), layer)
  const prune = (layers: string[], folders: string[]) => {
    clock.advance(3_600_000)
    return images.prune({ layers, folders }, { dryRun: false })
  }
  await prune([layer], [])
  assert.deepEqual(images.layerFolders([layer]), [found])
  assert.equal(readdirSync(join(folder, 'layers')).length, 1)
  await prune([], [found!])
  assert.deepEqual(images.layerFolders([layer]), [found])
  await prune([], [])
  assert.throws(() => images.layerFolders([layer]), /not on this machine/)
  assert.equal(readFileSync(join(root, 'file'), 'utf8'), 'kept')
})

test('a root that was moved, or whose name another layer has, is found under its new place', async (t) => {
  const { images, folder } = await testImages(t)
  const [before, after] = [join(folder, 'before'), join(folder, 'after')]
  mkdirSync(before)
  const layer = await images.adopt('base', before)
  renameSync(before, after)
  assert.throws(() => images.layerFolders([layer]), /not on this machine/)
  assert.equal(await images.adopt('base', after), layer)
  const [found] = images.layerFolders([layer])
  assert.equal(realpathSync(found!), after)
  // As if an archive had that very digest.
  renameSync(found!, `${found}-link`)
  mkdirSync(found!)
  await images.adopt('base', after)
  assert.equal(realpathSync(images.layerFolders([layer])[0]!), after)
})
