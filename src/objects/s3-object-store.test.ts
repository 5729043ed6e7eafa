import assert from 'node:assert/strict'
import test, { after, before } from 'node:test'
import { startObjectStore, type TestObjectStore } from '../../test/support/object-store.ts'
import { isAppError } from '../lib/app-error.ts'
import { newUUID } from '../lib/ids.ts'
import { listed, objectStoreSuite } from './object-store-suite.ts'
import { parseS3Url, S3ObjectStore, type S3Options } from './s3-object-store.ts'

let server: TestObjectStore

before(async () => {
  server = await startObjectStore()
})
after(() => server.close())

const open = async (changes: Partial<S3Options> = {}) => {
  const { endpoint, bucket, credentials } = server
  return new S3ObjectStore({
    endpoint,
    bucket,
    credentials,
    prefix: `${newUUID()}/`,
    region: null,
    ...changes,
  })
}

objectStoreSuite('a real S3 server', () => open())

test('wrong credentials, a missing bucket and an unreachable server are unavailable, never absence', async () => {
  const wrong = { accessKeyId: 'tester', secretAccessKey: 'of-somebody-else' }
  for (const changes of [
    { credentials: wrong },
    { bucket: 'no-such-bucket' },
    { endpoint: 'http://127.0.0.1:9' },
  ]) {
    const store = await open(changes)
    const failures = [
      () => store.size('x'),
      () => store.read('x', 0, 1),
      () => store.putIfAbsent('x', Buffer.from('x')),
      () => listed(store, 'x'),
    ]
    for (const fail of failures) {
      const isClear = (error: unknown) =>
        isAppError(error, 'unavailable') && (error.retry?.afterSeconds ?? 0) > 0
      await assert.rejects(fail(), isClear, JSON.stringify(changes))
    }
    await store.close()
  }
})

test('the location is a bucket, with or without a prefix', () => {
  assert.deepEqual(parseS3Url('s3://bucket'), { bucket: 'bucket', prefix: '' })
  assert.deepEqual(parseS3Url('s3://my.bucket/a//b/'), { bucket: 'my.bucket', prefix: 'a/b/' })
  for (const text of ['bucket', 's3://', 's3://UPPER', 'https://x/y', 's3://bucket/a b']) {
    assert.throws(() => parseS3Url(text), { code: 'invalid_argument' }, text)
  }
})
