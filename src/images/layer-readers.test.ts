/** Who may have a layer that is here already: an image can name any digest, also one that it does not hold. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { RegistryCredentials } from '../core/ports/images.ts'
import { isAppError } from '../lib/app-error.ts'
import { type MadeLayer, sha256 } from './archive-fixture.ts'
import { type TestImages, testImages, testRegistry } from './images-fixture.ts'
import { addImage, type FakeRegistry, fileLayer } from './registry-fixture.ts'

const login: RegistryCredentials = { type: 'registry', username: 'u', password: 'p' }
const secret = fileLayer('secret', 'of the victim')

async function openTwo(t: TestContext) {
  const theirs = await testRegistry(t)
  const hostile = await testRegistry(t)
  addImage(theirs, 'private', { layers: [secret] })
  const images = await testImages(t)
  const pullAs = (owner: string, registry: FakeRegistry, tag: string, credentials?: RegistryCredentials) =>
    images.pull(`${registry.host}/x:${tag}`, credentials, undefined, owner)
  return { theirs, hostile, images, pullAs }
}

/** An image that names a layer which its registry does not have. */
function forge(registry: FakeRegistry, tag: string, { diffID }: MadeLayer): void {
  addImage(registry, tag, { layers: [{ ...fileLayer('junk', 'junk'), diffID }] })
}

const fetchesOf = (registry: FakeRegistry, { blob }: MadeLayer) =>
  registry.requests.filter(({ path }) => path.endsWith(sha256(blob))).length
const nothingHalf = ({ folder }: TestImages) =>
  assert.ok(readdirSync(join(folder, 'layers')).every((name) => /^[0-9a-f]{64}$/.test(name)))

test('a layer fetched with a password is not available to a client that only knows its digest', async (t) => {
  const { theirs, hostile, images, pullAs } = await openTwo(t)
  await pullAs('victim', theirs, 'private', login)
  forge(hostile, 'forged', secret)
  for (const credentials of [undefined, login]) {
    const refused = pullAs('attacker', hostile, 'forged', credentials)
    await assert.rejects(refused, (error) => isAppError(error) && /unpacked layer/.test(error.message))
  }
  nothingHalf(images)
  const mine = await pullAs('victim', theirs, 'private', login)
  assert.deepEqual([mine.layers, fetchesOf(theirs, secret)], [[secret.diffID], 1])
})

test('a client that can fetch the layer gets it, after one full fetch without another', async (t) => {
  const { theirs, images, pullAs } = await openTwo(t)
  await pullAs('one', theirs, 'private', login)
  await pullAs('two', theirs, 'private', login)
  assert.equal(fetchesOf(theirs, secret), 2)
  for (const owner of ['one', 'two']) await pullAs(owner, theirs, 'private', login)
  assert.equal(fetchesOf(theirs, secret), 2)
  nothingHalf(images)
  assert.equal(readdirSync(join(images.folder, 'layers')).length, 1)
})

test("nobody joins another's fetch by naming the digest", async (t) => {
  const { theirs, hostile, pullAs } = await openTwo(t)
  forge(hostile, 'forged', secret)
  const atBlob = Promise.withResolvers<() => void>()
  theirs.intercept = (request, response) => {
    if (!request.url!.endsWith(sha256(secret.blob))) return false
    atBlob.resolve(() => response.end(secret.blob))
    return true
  }
  const pulling = pullAs('victim', theirs, 'private', login)
  const goOn = await atBlob.promise
  await assert.rejects(pullAs('attacker', hostile, 'forged', login), /unpacked layer/)
  await assert.rejects(pullAs('attacker', hostile, 'forged'), /unpacked layer/)
  goOn()
  assert.deepEqual((await pulling).layers, [secret.diffID])
})

test('two clients that fetch a layer at once, each with a password, both get it, and it is stored once', async (t) => {
  const { theirs, images, pullAs } = await openTwo(t)
  const owners = ['one', 'two', 'three']
  await Promise.all(owners.map((owner) => pullAs(owner, theirs, 'private', login)))
  assert.equal(fetchesOf(theirs, secret), 3)
  await Promise.all(owners.map((owner) => pullAs(owner, theirs, 'private', login)))
  assert.equal(fetchesOf(theirs, secret), 3)
  nothingHalf(images)
})

test('a layer fetched without a password is for all, also after a restart', async (t) => {
  const { theirs, images, pullAs } = await openTwo(t)
  await pullAs('one', theirs, 'private', login)
  await pullAs('two', theirs, 'private')
  await pullAs('three', theirs, 'private', login)
  assert.equal(fetchesOf(theirs, secret), 2)
  await images.images.close()
  const again = await testImages(t, { folder: images.folder })
  await again.pull(`${theirs.host}/x:private`, undefined, undefined, 'four')
  assert.equal(fetchesOf(theirs, secret), 2)
})
