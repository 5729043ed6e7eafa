import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { ManualClock } from '../../lib/clock.ts'
import { newUUID } from '../../lib/ids.ts'
import { openStores } from '../../store/open-stores.ts'
import { vault } from '../../store/suite/rows.ts'
import { registerBaseTemplate } from './base-template.ts'

const base = { layers: ['sha256:a'], cpuCount: 2, memoryMB: 1024, diskMB: 10_240 }

test('the base template keeps its build until its layers or sizes change', async (t) => {
  const dataFolder = mkdtempSync(join(tmpdir(), 'warren-base-'))
  const stores = await openStores({ url: undefined, dataFolder, vault })
  t.after(async () => {
    await stores.close()
    rmSync(dataFolder, { recursive: true, force: true })
  })
  const { templates } = stores
  const clock = new ManualClock()
  const register = (changes: Partial<typeof base> = {}) => {
    clock.advance(1000)
    return registerBaseTemplate(templates, { ...base, ...changes }, clock)
  }
  const first = await register()
  assert.deepEqual([first.layers, first.rootFolder, first.status], [['sha256:a'], null, 'ready'])
  assert.equal((await register()).buildID, first.buildID)
  const current = async () => (await templates.findReadyBuild(first.templateID, 'default'))?.buildID
  for (const changes of [{ layers: ['sha256:b'] }, { layers: ['sha256:a', 'sha256:b'] }, { memoryMB: 512 }]) {
    const other = await register(changes)
    assert.equal(other.templateID, first.templateID)
    assert.equal(await current(), other.buildID)
    assert.equal((await register(changes)).buildID, other.buildID)
  }
  assert.deepEqual((await templates.listLayers()).sort(), ['sha256:a', 'sha256:b'])

  // As older versions wrote it.
  const old = { ...first, buildID: newUUID(), rootFolder: 'templates/base-1', layers: null }
  clock.advance(1000)
  await templates.insertBuild({ ...old, createdAt: clock.now() }, ['default'])
  assert.equal(await current(), old.buildID)
  const upgraded = await register()
  assert.deepEqual([upgraded.layers, upgraded.rootFolder], [['sha256:a'], null])
  assert.equal(await current(), upgraded.buildID)
  assert.equal((await templates.findBuild(old.buildID))?.rootFolder, 'templates/base-1')
})
