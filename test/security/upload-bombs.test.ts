/** Uploads that unpack to far more than was sent, many at once, and senders that leave (J5). */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { headerOf, tarOf } from '../../src/images/archive-fixture.ts'
import { eventually } from '../support/eventually.ts'
import { anyIsolation, joinWarren, type Warren } from '../support/warren.ts'

const gibibyte = 2 ** 30
const partBytes = 16 * 2 ** 20

/** About 2 MiB that unpack to 2 GiB; with `filler`, ten that do, which is within what is allowed. */
function bomb(filler = 0): Buffer {
  const size = 2 * gibibyte - partBytes
  const noise = randomBytes(filler)
  const part = gzipSync(Buffer.concat([noise, Buffer.alloc(partBytes - noise.length)]))
  const head = gzipSync(headerOf({ name: 'zeros', size }, 0))
  return Buffer.concat([
    head,
    ...Array.from({ length: size / partBytes }, () => part),
    gzipSync(Buffer.alloc(1024)),
  ])
}

describe('uploads that unpack to a lot', () => {
  let warren: Warren
  let templateID: string
  before(async () => {
    warren = await joinWarren(anyIsolation)
    const made = await warren.api('/v3/templates', { body: { name: `bombs-${process.pid}` } })
    templateID = ((await made.json()) as { templateID: string }).templateID
  })
  after(() => warren?.stop())

  async function upload(number: number, body: Buffer, signal?: AbortSignal): Promise<Response> {
    const hash = number.toString(16).padStart(64, '0')
    const { url } = (await (await warren.api(`/templates/${templateID}/files/${hash}`)).json()) as {
      url: string
    }
    return fetch(url, { method: 'PUT', body: new Uint8Array(body), signal: signal ?? null })
  }

  const partialFiles = (): string[] =>
    readdirSync(join(warren.dataFolder, 'build-files'), { recursive: true })
      .map(String)
      .filter((name) => name.endsWith('.partial'))

  it('are rejected, six at once, while all other requests are answered', async () => {
    const body = bomb()
    assert.ok(body.length < 3 * 2 ** 20)
    let isOver = false
    const bombs = Promise.all([1, 2, 3, 4, 5, 6].map((number) => upload(number, body)))
    const ended = bombs.finally(() => {
      isOver = true
    })
    const good = await upload(7, gzipSync(tarOf([{ name: 'a', content: 'b' }])))
    assert.equal(good.status, 200)
    for (let answered = 0; answered < 20; answered++) {
      assert.equal((await warren.api('/v2/sandboxes')).status, 200)
    }
    assert.equal(isOver, false, 'the bombs were over before the others were answered')
    for (const answer of await ended) {
      assert.equal(answer.status, 413)
      assert.match(await answer.text(), /unpack to more than 250 times what was sent/)
    }
    assert.deepEqual(partialFiles(), [])
  })

  it('are rejected in every form, and leave nothing behind', async () => {
    const zeros = Buffer.alloc(512 * 2 ** 20)
    const names = Array.from({ length: 1000 }, (_, index) => ({ name: `${index}/`, type: '5' }))
    // Without the end of the archive, so that many follow each other.
    const folders = gzipSync(tarOf(names).subarray(0, 1000 * 512))
    const forms = {
      zstd: zstdCompressSync(Buffer.concat([headerOf({ name: 'zeros', size: zeros.length }, 0), zeros])),
      'two million entries': Buffer.concat(Array.from({ length: 2000 }, () => folders)),
      'gzip in gzip': gzipSync(bomb()),
      sparse: gzipSync(tarOf([{ name: 'holes', type: 'S', size: 0 }])),
      xz: Buffer.concat([Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0]), randomBytes(5000)]),
    }
    const sent = Object.entries(forms).map(async ([form, body], index) => ({
      form,
      answer: await upload(20 + index, body),
    }))
    for (const { form, answer } of await Promise.all(sent)) {
      assert.ok([400, 413].includes(answer.status), `${form}: ${answer.status} ${await answer.text()}`)
    }
    await eventually(async () => assert.deepEqual(partialFiles(), []))
  })

  it('are aborted as soon as their sender leaves', async () => {
    const body = bomb(64 * 1024)
    const client = new AbortController()
    const sent = Promise.allSettled([8, 9, 10].map((number) => upload(number, body, client.signal)))
    await eventually(async () => assert.equal(partialFiles().length, 3))
    client.abort()
    for (const { status } of await sent) assert.equal(status, 'rejected')
    await eventually(async () => assert.deepEqual(partialFiles(), []))
  })
})
