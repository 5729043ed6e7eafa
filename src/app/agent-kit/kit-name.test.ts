import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { systemClock } from '../../lib/clock.ts'
import { kitNameOf } from './kit-name.ts'

suite('the name of a kit', () => {
  const later = { ...systemClock, now: () => systemClock.now() + 60_000 }
  let folder: string
  let noteFile: string
  let program: string
  const nameNow = (clock = later) =>
    kitNameOf({ texts: ['text'], files: new Map([['node', program]]) }, noteFile, clock)

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'warren-kit-name-'))
    noteFile = join(folder, 'agent.name')
    program = join(folder, 'program')
    await writeFile(program, 'one')
  })
  after(() => rm(folder, { recursive: true, force: true }))

  test('is not noted while a file may change again without another date', async () => {
    await nameNow(systemClock)
    await assert.rejects(readFile(noteFile), { code: 'ENOENT' })
  })

  test('is taken from the note as long as no file changes', async () => {
    const name = await nameNow()
    const [key, noted] = (await readFile(noteFile, 'utf8')).split('\n')
    assert.equal(noted, name)
    const other = name.replace(/^./, (digit) => (digit === '0' ? '1' : '0'))
    await writeFile(noteFile, `${key}\n${other}\n`)
    assert.equal(await nameNow(), other)
    await utimes(program, 1, 1)
    assert.equal(await nameNow(), name)
  })

  test('changes with one byte of a file, also if the file keeps its size and date', async () => {
    const name = await nameNow()
    await writeFile(program, 'two')
    await utimes(program, 1, 1)
    assert.notEqual(await nameNow(), name)
  })

  test('is found again if the note is cut off', async () => {
    const name = await nameNow()
    const whole = await readFile(noteFile, 'utf8')
    await writeFile(noteFile, whole.slice(0, -8))
    assert.equal(await nameNow(), name)
  })
})
