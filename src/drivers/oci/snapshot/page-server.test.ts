/** Tests the program that serves memory while it arrives, with real files of FUSE. */
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import type { MemoryLoad } from '../../../core/ports/memory-load.ts'
import type { PackedParts } from '../../../core/ports/object-store.ts'
import { delay } from '../../../lib/clock.ts'
import { fillMemory } from './fill-memory.ts'
import { blockBytes, openPages, PageServerConnection, startPageServer } from './page-server.ts'

const native = resolve(import.meta.dirname, '../../../../native')
const shipped = (machine: string) => join(native, `built/page-server-${machine}`)
const compilers = { x64: 'x86_64-linux-gnu-gcc', arm64: 'aarch64-linux-gnu-gcc' }
const pinned = /^\S+-gcc \(Debian 12\.2\.0-\d+\S*\) 12\.2\.0$/m

/** Two whole blocks and a part of a third. */
const bytes = 2 * blockBytes + 5000
const content = randomBytes(bytes)

async function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-pages-'))
  mkdirSync(join(folder, 'memory'))
  await startPageServer(shipped(process.arch), folder, bytes)
  const served = join(folder, 'memory/pages.img')
  const pid = Number(readlinkSync(served).split('/')[2])
  const connection = await PageServerConnection.open(folder, 3)
  t.after(() => {
    connection?.close()
    rmSync(folder, { recursive: true })
  })
  const write = async (block: number, to = connection!) => {
    await using file: FileHandle = await openPages(folder)
    const part = content.subarray(block * blockBytes, (block + 1) * blockBytes)
    await file.write(part, 0, part.length, block * blockBytes)
    to.complete(block)
  }
  const read = (start: number, length: number) => {
    const program = `const fs = require('fs'); const fd = fs.openSync(process.argv[1]); const to = Buffer.alloc(${length});
      let at = 0; process.send('open'); while (at < to.length) { const n = fs.readSync(fd, to, at, to.length - at, ${start} + at); if (n === 0) break; at += n }
      process.send(require('crypto').createHash('sha256').update(to.subarray(0, at)).digest('hex'))`
    return new Reader(
      spawn(process.execPath, ['-e', program, served], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] }),
    )
  }
  return {
    folder,
    pid,
    connection: connection!,
    write,
    read,
    hash: (start: number, length: number) => hashOf(start, length),
  }
}

const hashOf = (start: number, length: number) =>
  createHash('sha256')
    .update(content.subarray(start, start + length))
    .digest('hex')

class Reader {
  readonly child: ChildProcess
  readonly said: string[] = []
  constructor(child: ChildProcess) {
    this.child = child
    child.on('message', (text) => this.said.push(String(text)))
  }
  async until(count: number): Promise<string> {
    while (this.said.length < count) await once(this.child, 'message')
    return this.said[count - 1]!
  }
}

async function untilGone(pid: number): Promise<void> {
  while (
    existsSync(`/proc/${pid}/status`) &&
    !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  )
    await delay(10)
}

suite('the built program', () => {
  for (const [machine, compiler] of Object.entries(compilers)) {
    test(`for ${machine} is byte for byte the build of its source`, (t) => {
      const { stdout } = spawnSync(compiler, ['--version'], { encoding: 'utf8' })
      if (!pinned.test(stdout ?? '')) return t.skip(`${compiler} of Debian 12 is not here`)
      const folder = mkdtempSync(join(tmpdir(), 'warren-pages-build-'))
      t.after(() => rmSync(folder, { recursive: true }))
      execFileSync(join(native, 'build-page-server'), [machine, join(folder, machine)])
      assert.ok(
        readFileSync(join(folder, machine)).equals(readFileSync(shipped(machine))),
        `A source was changed: run native/build-page-server ${machine} native/built/page-server-${machine}`,
      )
    })
  }
})

suite('memory that arrives while it is read', () => {
  test('a read waits for all its blocks, and tells which ones', async (t) => {
    const { connection, write, read } = await world(t)
    const wanted: number[] = []
    const both = Promise.withResolvers<void>()
    connection.onWanted((block) => {
      wanted.push(block)
      if (wanted.length === 2) both.resolve()
    })
    const reader = read(blockBytes - 100, 200)
    await both.promise
    assert.deepEqual(wanted, [0, 1])
    await write(1)
    assert.deepEqual(reader.said, ['open'])
    await write(0)
    assert.equal(await reader.until(2), hashOf(blockBytes - 100, 200))
  })

  test('the end of the file is where it should be', async (t) => {
    const { write, read } = await world(t)
    await write(2)
    assert.equal(await read(2 * blockBytes, 1e6).until(2), hashOf(2 * blockBytes, 5000))
  })

  test('a reader that is killed while it waits ends', async (t) => {
    const { connection, read, pid } = await world(t)
    const wanted = Promise.withResolvers<void>()
    connection.onWanted(() => wanted.resolve())
    const { child } = read(0, 100)
    await wanted.promise
    child.kill('SIGKILL')
    const [, signal] = await once(child, 'exit')
    assert.equal(signal, 'SIGKILL')
    await connection.closed
    connection.close()
    await untilGone(pid)
  })

  test('a reader goes on after a signal that it handles', async (t) => {
    const { connection, write, read } = await world(t)
    const wanted = Promise.withResolvers<void>()
    connection.onWanted(() => wanted.resolve())
    const reader = read(0, 100)
    await wanted.promise
    // Node handles it in any of its threads.
    for (let i = 0; i < 20; i++) reader.child.kill('SIGCHLD')
    await write(0)
    assert.equal(await reader.until(2), hashOf(0, 100))
  })

  test('while nobody is connected reads wait, and a later connection learns what is there', async (t) => {
    const { folder, connection, write, read, pid } = await world(t)
    const wanted = Promise.withResolvers<void>()
    connection.onWanted((block) => block === 1 && wanted.resolve())
    await write(0)
    const reader = read(0, bytes)
    await wanted.promise
    connection.close()
    await connection.closed
    const second = (await PageServerConnection.open(folder, 3))!
    assert.deepEqual(second.isThere, [true, false, false])
    const again = Promise.withResolvers<void>()
    second.onWanted((block) => block === 1 && again.resolve())
    await again.promise
    await write(1, second)
    await write(2, second)
    assert.equal(await reader.until(2), hashOf(0, bytes))
    await once(reader.child, 'exit')
    await second.closed
    second.close()
    await untilGone(pid)
    assert.equal(await PageServerConnection.open(folder, 3), undefined)
  })

  test('without a reader and a connection it ends', async (t) => {
    const { connection, pid } = await world(t)
    connection.close()
    await untilGone(pid)
  })
})

/** Three parts: block 1 has two, with a hole between them; block 2 has none. */
const source = (reads: number[]): PackedParts => ({
  parts: [
    { at: 0, bytes: blockBytes },
    { at: blockBytes, bytes: 100 },
    { at: blockBytes + 8192, bytes: 100 },
  ],
  read: () => Promise.reject(new Error('All parts go to the file.')),
  async write(index, fd) {
    reads.push(index)
    const { at, bytes: length } = this.parts[index]!
    writeSync(fd, content, at, length, at)
  },
})

const load = (signal = new AbortController().signal): MemoryLoad => ({ signal, isStarting: () => false })

suite('filling memory', () => {
  test('brings every part, holes as zeros, and ends with the last reader', async (t) => {
    const { folder, connection, read, pid } = await world(t)
    const reads: number[] = []
    const reader = read(blockBytes, 20_000)
    await reader.until(1)
    connection.close()
    await fillMemory(folder, () => source(reads), load())
    const expected = Buffer.alloc(20_000)
    content.copy(expected, 0, blockBytes, blockBytes + 100)
    content.copy(expected, 8192, blockBytes + 8192, blockBytes + 8292)
    assert.equal(await reader.until(2), createHash('sha256').update(expected).digest('hex'))
    assert.deepEqual(reads.sort(), [0, 1, 2])
    await untilGone(pid)
  })

  test('rejects if a part cannot be read, and a second try goes on', async (t) => {
    const { folder, connection, read } = await world(t)
    const reader = read(0, 100)
    await reader.until(1)
    const failing = { ...source([]), write: () => Promise.reject(new Error('no store')) }
    connection.close()
    await assert.rejects(
      fillMemory(folder, () => failing, load()),
      /no store/,
    )
    await fillMemory(folder, () => source([]), load())
    assert.equal(await reader.until(2), hashOf(0, 100))
  })

  test('ends with the signal, and does nothing for a server that has ended', async (t) => {
    const { folder, pid } = await world(t)
    const abort = new AbortController()
    const never = {
      ...source([]),
      write: (_: number, _fd: number, signal: AbortSignal) => once(signal, 'abort').then(() => {}),
    }
    const filled = fillMemory(folder, () => never, load(abort.signal))
    abort.abort(new Error('enough'))
    await assert.rejects(filled, /enough/)
    await untilGone(pid)
    await fillMemory(folder, () => source([]), load())
  })
})
