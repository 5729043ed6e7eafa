import assert from 'node:assert/strict'
import { randomBytes, randomInt } from 'node:crypto'
import { test } from 'node:test'
import { fuzz, type Random } from '../../../test/support/fuzz.ts'
import { isAppError } from '../../lib/app-error.ts'
import { boundaryOf, readParts } from './multipart.ts'

async function read(body: Buffer, boundary: string, pieceSize: () => number) {
  async function* pieces() {
    for (let at = 0; at < body.length; ) {
      const size = pieceSize()
      yield body.subarray(at, at + size)
      at += size
    }
  }
  const parts: { name: string; filename: string | undefined; body: Buffer }[] = []
  for await (const part of readParts(pieces(), boundary)) {
    const chunks: Buffer[] = []
    for await (const chunk of part.body) chunks.push(chunk)
    parts.push({ name: part.name, filename: part.filename, body: Buffer.concat(chunks) })
  }
  return parts
}

function write(bodies: Buffer[], boundary: string): Buffer {
  const parts = bodies.map((body, i) =>
    Buffer.concat([
      Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="f${i}"\r\n\r\n`),
      body,
      Buffer.from('\r\n'),
    ]),
  )
  return Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)])
}

test('bodies of any bytes come back whole, however the stream is cut', async () => {
  const boundary = 'b-with-an-end-no-body-holds'
  for (let round = 0; round < 300; round++) {
    // Pieces of the delimiter itself are the hard case.
    const bodies = Array.from({ length: randomInt(1, 4) }, () =>
      Buffer.concat(
        Array.from({ length: randomInt(0, 6) }, () =>
          randomInt(2)
            ? randomBytes(randomInt(0, 40))
            : Buffer.from(['\r\n', '\r\n--', '--b', '\r\n--b', '\r'][randomInt(5)]!),
        ),
      ),
    )
    const parts = await read(write(bodies, boundary), boundary, () => randomInt(1, 30))
    assert.deepEqual(
      parts.map((part) => part.body),
      bodies,
    )
  }
})

test('a body cut anywhere is rejected and never hangs', async () => {
  const whole = write([Buffer.from('one'), Buffer.from('two')], 'b')
  for (let length = 0; length < whole.length - 4; length++) {
    await assert.rejects(
      read(whole.subarray(0, length), 'b', () => 7),
      (error) => isAppError(error, 'invalid_argument'),
    )
  }
})

test('a boundary inside a head is rejected at once, and gives no part the body of another', async () => {
  const disposition = (filename: string) =>
    `Content-Disposition: form-data; name="file"; filename="${filename}"`
  const next = `--b\r\n${disposition('next')}\r\n\r\nbody\r\n--b--\r\n`
  for (const body of [
    `--b\r\n${disposition('a')}\r\n--b--\r\n`,
    `--b\r\nx\r\n--b--\r\n`,
    `--b\r\n${disposition('a')}\r\n${next}`,
    `--b\r\n${next}`,
  ]) {
    await assert.rejects(
      read(Buffer.from(body), 'b', () => 7),
      (error) => isAppError(error, 'invalid_argument'),
    )
  }
})

test('random bytes are parsed or rejected, and no other error is thrown', async () => {
  for (let round = 0; round < 300; round++) {
    const noise = Buffer.concat([Buffer.from('--b\r\n'), randomBytes(randomInt(200)), Buffer.from('\r\n--b')])
    await read(noise, 'b', () => randomInt(1, 50)).catch((error) => {
      assert.ok(isAppError(error, 'invalid_argument'), String(error))
    })
  }
})

test('a part that is not read is skipped', async () => {
  const names: (string | undefined)[] = []
  async function* source() {
    yield write([Buffer.alloc(100_000), Buffer.from('x')], 'b')
  }
  for await (const part of readParts(source(), 'b')) names.push(part.filename)
  assert.deepEqual(names, ['f0', 'f1'])
})

test('filenames may be quoted, escaped, percent-coded or in UTF-8', async () => {
  const names = ['"a b"', '"q\\"q"', '"b\\\\s"', '"p%22q"', 'plain', '"ü.txt"']
  const heads = names.map(
    (name) => `--b\r\ncontent-disposition: form-data; name=file; filename=${name}\r\n\r\n\r\n`,
  )
  heads.push('--b\r\nContent-Disposition: form-data; name="file"; filename*=UTF-8\'\'%C3%A4\r\n\r\n\r\n')
  const parts = await read(Buffer.from(`${heads.join('')}--b--`), 'b', () => 11)
  assert.deepEqual(
    parts.map((part) => part.filename),
    ['a b', 'q"q', 'b\\s', 'p"q', 'plain', 'ü.txt', 'ä'],
  )
})

test('the boundary may be quoted, and a missing boundary is rejected', () => {
  assert.equal(boundaryOf('multipart/form-data; boundary="a b"'), 'a b')
  assert.equal(boundaryOf('multipart/form-data; charset=x; boundary=ab; more'), 'ab')
  assert.throws(
    () => boundaryOf('multipart/form-data'),
    (error) => isAppError(error, 'invalid_argument'),
  )
})

test('a body that is no form is rejected without a crash, a hang or much memory', async () => {
  const boundary = 'XX'
  const pieces = ['--XX', '\r\n', '--', 'XX', '\r', '\n', 'Content-Disposition: form-data', '; name="file"']
  const more = ['; filename="a', '"', ';', '*=UTF-8', "''%zz", 'x'.repeat(5000), '\0', ': ', '%22']
  await fuzz(4, async (random) => {
    const good = write([random.bytes(random.below(100))], boundary)
    const body = random.chance(0.5)
      ? Buffer.from(
          Array.from({ length: random.below(40) }, () => random.pick([...pieces, ...more])).join(''),
        )
      : spoiled(good, random)
    try {
      const parts = await read(body, boundary, () => 1 + random.below(50))
      for (const part of parts) assert.ok(part.body.length <= body.length)
    } catch (error) {
      assert.ok(isAppError(error, 'invalid_argument'), String(error))
    }
  })
})

function spoiled(good: Buffer, random: Random): Buffer {
  const body = Buffer.from(good)
  for (let i = random.below(5); i > 0; i--) body[random.below(body.length)] = random.below(256)
  return body.subarray(0, random.chance(0.5) ? body.length : random.below(body.length))
}

test('an endless head is rejected before it fills the memory', async () => {
  let sent = 0
  async function* endless() {
    yield Buffer.from('--XX\r\n')
    for (;;) {
      sent += 1000
      yield Buffer.from('x'.repeat(1000))
    }
  }
  const parts = readParts(endless(), 'XX')
  await assert.rejects(parts.next(), (error) => isAppError(error, 'invalid_argument'))
  assert.ok(sent < 200_000)
})
