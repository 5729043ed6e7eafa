import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { isAppError } from '../../../lib/app-error.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { describeSnapshot } from '../../oci/snapshot/snapshot-folder.ts'
import { createLayout, instanceOf } from './layout.ts'
import { Records } from './records.ts'

describe('records and snapshots that cannot be read', () => {
  let data: string
  let records: Records
  beforeEach(async () => {
    data = await mkdtemp(join(tmpdir(), 'warren-records-'))
    await mkdir(join(data, 'sandboxes', 'one'), { recursive: true })
    records = new Records(createLayout(data, instanceOf(data)))
  })
  afterEach(() => rm(data, { recursive: true, force: true }))

  const recordFile = () => join(data, 'sandboxes', 'one', 'record.json')
  const unavailable = (words: RegExp) => (error: unknown) =>
    isAppError(error, 'unavailable') && words.test(error.message)

  it('are absent only if there is no file, or if a power cut left an empty file', async () => {
    assert.equal(await records.read('one'), undefined)
    assert.equal(await records.read('none'), undefined)
    await writeFile(recordFile(), '')
    assert.equal(await records.read('one'), undefined)
    assert.equal(await describeSnapshot(join(data, 'none')), undefined)
  })

  it('cause an error if something other than a file is in their place', async () => {
    await mkdir(recordFile())
    await assert.rejects(records.read('one'), unavailable(/EISDIR.*Nothing was changed/))
    await assert.rejects(records.all(), unavailable(/EISDIR/))
    await rm(join(data, 'sandboxes'), { recursive: true })
    await writeFile(join(data, 'sandboxes'), '')
    await assert.rejects(records.names(), { code: 'ENOTDIR' })
    await assert.rejects(records.read('one'), unavailable(/ENOTDIR/))
  })

  it('cause an error if they are damaged', async () => {
    await writeFile(recordFile(), '{"version":1,"sandb')
    await assert.rejects(records.read('one'), unavailable(/record\.json is damaged/))
  })

  it('cause an error if another version of Warren wrote them', async () => {
    await writeFile(recordFile(), '{"version":2}')
    await assert.rejects(
      records.read('one'),
      unavailable(/has the format 2, and this version of Warren reads 1/),
    )
    const snapshot = join(data, 'snapshot')
    await mkdir(snapshot)
    await writeFile(join(snapshot, 'saved.json'), '{"version":7}')
    await assert.rejects(describeSnapshot(snapshot), unavailable(/has the format 7/))
  })

  it('are not considered absent by a process that has no file descriptors left', async () => {
    await writeFile(recordFile(), '{"version":1}')
    const module = (name: string) => JSON.stringify(join(import.meta.dirname, name))
    const script = `
      import { openSync } from 'node:fs'
      import { createLayout } from ${module('layout.ts')}
      import { Records } from ${module('records.ts')}
      const records = new Records(createLayout(${JSON.stringify(data)}, 'aaaaaa'))
      try { for (;;) openSync('/dev/null') } catch (error) { if (error.code !== 'EMFILE') throw error }
      for (const work of [() => records.read('one'), () => records.names(), () => records.all()]) {
        const told = await work().then((found) => 'found ' + JSON.stringify(found), (error) => error.message)
        process.stdout.write(told + '\\n')
      }`
    const command = [
      '-c',
      'ulimit -n 60; exec "$@"',
      'sh',
      process.execPath,
      '--input-type=module',
      '-e',
      script,
    ]
    const { stdout } = await runCommand('sh', command)
    const lines = stdout.trim().split('\n')
    assert.equal(lines.length, 3)
    for (const line of lines) assert.match(line, /EMFILE/)
  })
})
