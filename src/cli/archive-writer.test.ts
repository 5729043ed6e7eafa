import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type MadeEntry, tarOf } from '../images/archive-fixture.ts'
import { TarReader } from '../lib/tar/tar-reader.ts'
import { type ArchiveLimits, type ArchiveTarget, ArchiveWriter } from './archive-writer.ts'

describe('an archive from a sandbox', () => {
  let outer = ''
  let folder = ''
  beforeEach(() => {
    outer = mkdtempSync(join(tmpdir(), 'warren-archive-'))
    folder = join(outer, 'target')
    mkdirSync(folder)
  })
  afterEach(() => rmSync(outer, { recursive: true }))

  function write(
    entries: MadeEntry[],
    more: Partial<ArchiveTarget> = {},
    limits?: ArchiveLimits,
  ): ArchiveWriter {
    const writer = new ArchiveWriter({ folder, maxBytes: 1000, ...more }, limits)
    const reader = new TarReader(writer)
    try {
      reader.push(tarOf(entries))
      reader.finish()
      writer.finish()
    } finally {
      writer.close()
    }
    return writer
  }

  it('ends if what belongs to no file does not end', () => {
    const piece = Buffer.alloc(2 ** 19)
    const extension = tarOf([{ name: 'x', type: 'g', content: 'y'.repeat(2 ** 19) }], Buffer.alloc(0))
    for (const [begin, more] of [
      [tarOf([{ name: 'a', content: 'a' }]), piece],
      [Buffer.alloc(0), extension],
    ] as const) {
      const writer = new ArchiveWriter({ folder, maxBytes: 1000 })
      const reader = new TarReader(writer)
      const receive = (bytes: Buffer) => {
        reader.push(bytes)
        writer.noteReceived(bytes.length)
      }
      receive(begin)
      receive(more)
      assert.throws(() => {
        for (let count = 0; count < 3; count += 1) receive(more)
      }, /belongs to no file/)
      writer.close()
    }
  })

  it('may have long names, and as many entries as it likes', () => {
    const writer = new ArchiveWriter({ folder, maxBytes: 1000 })
    const reader = new TarReader(writer)
    const name = `${'n'.repeat(200)}/`.repeat(4)
    for (let count = 0; count < 1000; count += 1) {
      const entry = tarOf(
        [{ name: 'l', type: 'L', content: `${name}${count}` }, { name: 'x' }],
        Buffer.alloc(0),
      )
      reader.push(entry)
      writer.noteReceived(entry.length)
    }
    writer.close()
  })

  it('becomes files, folders and links, with their modes and without owners and special bits', () => {
    write([
      { name: './', type: '5' },
      { name: './deep/', type: '5', mode: 0o700 },
      { name: './deep/run', content: 'x', mode: 0o6755, uid: 12345 },
      { name: './link', type: '2', target: '../../etc/passwd' },
      { name: './same', type: '1', target: './deep/run' },
    ])
    assert.deepEqual(readdirSync(folder).sort(), ['deep', 'link', 'same'])
    const { mode, uid } = statSync(join(folder, 'deep/run'))
    assert.deepEqual([mode & 0o7777, uid], [0o755, process.getuid!()])
    assert.equal(readlinkSync(join(folder, 'link')), '../../etc/passwd')
    assert.equal(readFileSync(join(folder, 'same'), 'utf8'), 'x')
  })

  it('overwrites files, and leaves devices and pipes out', () => {
    writeFileSync(join(folder, 'old'), 'before')
    const writer = write([
      { name: 'old', content: 'after' },
      { name: 'null', type: '3' },
      { name: 'pipe', type: '6' },
    ])
    assert.equal(readFileSync(join(folder, 'old'), 'utf8'), 'after')
    assert.equal(writer.leftOut, 2)
    assert.deepEqual(readdirSync(folder), ['old'])
  })

  it('cannot write outside of its folder, through names or links', () => {
    writeFileSync(join(outer, 'precious'), 'precious')
    symlinkSync(outer, join(folder, 'existing'))
    const attacks: MadeEntry[][] = [
      [{ name: '../precious', content: 'x' }],
      [{ name: 'a/../../precious', content: 'x' }],
      [{ name: '.', content: 'x' }],
      [{ name: 'existing/precious', content: 'x' }],
      [
        { name: 'up', type: '2', target: outer },
        { name: 'up/precious', content: 'x' },
      ],
      [
        { name: 'up', type: '2', target: outer },
        { name: 'up', type: '5' },
        { name: 'up/precious', content: 'x' },
      ],
      [{ name: 'hard', type: '1', target: '../precious' }],
      [{ name: 'hard', type: '1', target: 'existing' }],
      [{ name: 'hard', type: '1', target: 'existing/precious' }],
    ]
    for (const entries of attacks)
      assert.throws(() => write(entries), /The copy was stopped/, JSON.stringify(entries))
    // An absolute name is one below the folder.
    write([{ name: join(outer, 'precious'), content: 'x' }])
    assert.equal(readFileSync(join(outer, 'precious'), 'utf8'), 'precious')
    assert.deepEqual(readdirSync(outer).sort(), ['precious', 'target'])
  })

  it('replaces files and links alone', () => {
    execFileSync('mkfifo', [join(folder, 'pipe')])
    for (const entry of [{ content: 'x' }, { type: '2', target: 'x' }])
      assert.throws(
        () => write([{ name: 'pipe', ...entry }]),
        /"pipe" exists and is neither a file nor a link/,
      )
    assert.ok(statSync(join(folder, 'pipe')).isFIFO())
  })

  it('cannot make folders or links without end', () => {
    const deep = (first: string) => ({ name: `${first}/${'d/'.repeat(40)}`, type: '5' })
    const limits = { entries: 60, linkBytes: 150 }
    assert.throws(() => write([deep('a'), deep('b')], {}, limits), /more than 60 files and folders/)
    const link = (name: string) => ({ name, type: '2', target: 'x'.repeat(90) })
    assert.throws(() => write([link('c'), link('d')], {}, limits), /links of more than 150 bytes/)
    assert.deepEqual(readdirSync(folder).sort(), ['a', 'b'])
  })

  it('is bounded, and is the one file that was asked for', () => {
    assert.throws(() => write([{ name: 'large', content: 'x'.repeat(1001) }]), /larger than .*--max-mb/)
    write([{ name: 'other', content: 'x' }], { fileName: 'wanted' })
    assert.equal(readFileSync(join(folder, 'wanted'), 'utf8'), 'x')
    for (const entries of [[{ name: 'x', type: '5' }], [{ name: 'x' }, { name: 'y' }]])
      assert.throws(() => write(entries, { fileName: 'one' }), /something else than the file/)
  })
})
