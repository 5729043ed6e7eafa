import assert from 'node:assert/strict'
import test from 'node:test'
import { type Fixture, failsWith, gate, request, until } from '../../../test/support/domain.ts'
import {
  contentOf,
  openObjectCluster,
  paused,
  storedOf,
  storedSoon,
  timed,
  wish,
} from '../../../test/support/object-cluster.ts'
import { AppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import { silentLog } from '../../lib/log.ts'
import { ObjectPacks } from '../../objects/packs.ts'
import { aBuild } from '../../store/suite/rows.ts'
import { sandboxKey } from './keys.ts'
import { LogCarrier } from './log-carrier.ts'

test('a paused sandbox of one node resumes on another, memory included, and its own node forgets its copy', async (t) => {
  const { one, other, objects } = await openObjectCluster(t)
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  assert.equal(await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' }), true)
  const { sandbox } = await other.service.connect(other.team, sandboxID, timed)
  assert.equal(sandbox.state, 'running')
  assert.deepEqual(contentOf(other, sandboxID), ['memory', 'file'])
  assert.equal(one.driver.world.snapshots.size, 1)
  await one.reconciler.run()
  assert.equal(one.driver.world.snapshots.size, 0)
  assert.deepEqual(await one.quarantine.list(), [])
  await assert.rejects(one.service.connect(one.team, sandboxID, timed), failsWith('not_found'))
  assert.equal(objects.objects.size, 1)
})

test('the log of a sandbox moves with it, there and back', async (t) => {
  const { one, other, clock } = await openObjectCluster(t)
  const add = async ({ logs }: Fixture, sandboxID: string, sequence: number) => {
    const message = `line ${sequence}`
    await logs.append(sandboxID, [{ sequence, at: clock.now(), level: 'info', message, fields: {} }])
    clock.advance(1000)
  }
  const { sandboxID } = await one.service.create(one.team, request())
  let [here, there] = [one, other]
  for (let sequence = 1; sequence <= 3; sequence++) {
    await add(here, sandboxID, sequence)
    await here.service.pause(here.team, sandboxID, wish)
    await storedSoon(here, sandboxID)
    assert.equal(
      await there.objectStorage!.migrator.claim(sandboxID, { memory: true, from: here.nodeID }),
      true,
    )
    await there.service.connect(there.team, sandboxID, timed)
    await here.reconciler.run()
    const entries = await there.logs.newest(sandboxID, 1e6)
    const numbers = entries.map((entry) => entry.sequence).filter((number) => number > 0)
    assert.deepEqual(numbers, [1, 2, 3].slice(0, sequence))
    ;[here, there] = [there, here]
  }
})

test('a malformed packed log is left out, and the sandbox moves without it', async (t) => {
  const { one } = await openObjectCluster(t)
  const { sandboxID } = await one.service.create(one.team, request())
  const before = await one.logs.newest(sandboxID, 1e6)
  const carrier = new LogCarrier(one.logs, silentLog)
  const entry = { sequence: 7, at: 8e15, level: 'info', message: 'line', fields: {} }
  const maxPieces = 100
  let piecesRead = 0
  async function* endless() {
    for (; piecesRead < maxPieces; piecesRead++) yield Buffer.alloc(64 * 1024, `${JSON.stringify(entry)}\n`)
  }
  async function* of(text: string) {
    yield Buffer.from(text)
  }
  const broken = ['no JSON', '[]', 'null', JSON.stringify({ ...entry, level: 'x' }), '{"at":"now"}']
  for (const content of [endless(), ...broken.map(of)]) {
    const write = carrier.unpack(sandboxID).open('log.jsonl', 0)
    assert.ok(typeof write === 'function')
    await write(content)
  }
  assert.ok(piecesRead < 20, `${piecesRead} pieces of an endless log were read`)
  assert.deepEqual(await one.logs.newest(sandboxID, 1e6), before)
})

test('a node that finds a sandbox of its own owned by another node stops its copy at once', async (t) => {
  const { one, other } = await openObjectCluster(t)
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' })
  await other.service.connect(other.team, sandboxID, timed)
  // As if the earlier owner had gone on with it while it could not see the rows.
  const inside = other.driver.world.sandboxes.get(sandboxID)!
  one.driver.world.sandboxes.set(sandboxID, inside)
  await one.reconciler.run()
  assert.equal(one.driver.world.sandboxes.has(sandboxID), false)
  assert.deepEqual(contentOf(other, sandboxID), ['memory', 'file'])
  assert.ok(one.logged.some(({ message }) => message.includes('that another node owns was stopped')))
})

test('snapshots in the quarantine of the earlier owner stay there when the sandbox moves', async (t) => {
  const { one, other } = await openObjectCluster(t)
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  const [name] = [...one.driver.world.snapshots.keys()]
  const earlier = `${sandboxID}-${newUUID()}`
  one.driver.world.snapshots.set(earlier, one.driver.world.snapshots.get(name!)!)
  await one.quarantine.add(earlier, 'an earlier one')
  await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' })
  await one.reconciler.run()
  assert.deepEqual([...one.driver.world.snapshots.keys()], [earlier])
})

test('the copy of the earlier owner is removed even before the new owner has fetched it', async (t) => {
  const { one, other } = await openObjectCluster(t)
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' })
  await one.reconciler.run()
  assert.equal(one.driver.world.snapshots.size, 0)
  await other.reconciler.run()
  await other.service.connect(other.team, sandboxID, timed)
  assert.deepEqual(contentOf(other, sandboxID), ['memory', 'file'])
})

test('of several nodes that take the same sandbox at once, its own node included, one gets it', async (t) => {
  const { one, other, open } = await openObjectCluster(t)
  const third = await open('third')
  t.after(() => third.stores.close())
  for (let round = 0; round < 5; round++) {
    const sandboxID = await paused(one)
    await storedSoon(one, sandboxID)
    const resumes = [one, other, third].map(async (node) => {
      if (
        node !== one &&
        !(await node.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' }))
      )
        return undefined
      return node.service.connect(node.team, sandboxID, timed).catch(() => undefined)
    })
    await Promise.all(resumes)
    const live = [one, other, third].filter((node) => contentOf(node, sandboxID))
    assert.equal(live.length, 1, `round ${round}`)
    await live[0]!.service.kill(live[0]!.team, sandboxID)
  }
})

test('a sandbox that only its own disk has cannot be taken over', async (t) => {
  const { one, other, objects } = await openObjectCluster(t)
  objects.isGone = true
  const sandboxID = await paused(one)
  await one.objectStorage!.uploader.run()
  assert.equal(await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' }), false)
  const { sandbox } = await one.service.connect(one.team, sandboxID, timed)
  assert.equal(sandbox.state, 'running')
})

test('while the object store does not answer, local work continues, the outage is logged once, and uploads follow later', async (t) => {
  const { one, objects } = await openObjectCluster(t)
  objects.isGone = true
  const sandboxID = await paused(one)
  for (let round = 0; round < 3; round++) await one.objectStorage!.uploader.run()
  const messages = one.logged.filter(({ message }) => message.includes('object store'))
  assert.deepEqual(
    messages.map(({ level }) => level),
    ['warn'],
  )
  objects.isGone = false
  await one.objectStorage!.uploader.run()
  assert.ok(await storedOf(one, sandboxID))
})

test('a sandbox that is resumed during its upload is not stored, and the upload is removed', async (t) => {
  const { one, objects } = await openObjectCluster(t)
  const upload = gate()
  let isRead = false
  objects.onStep = (step) => {
    if (step !== 'finish') return
    isRead = true
    return upload.opened
  }
  const sandboxID = await paused(one)
  await until(async () => isRead)
  await one.service.connect(one.team, sandboxID, timed)
  upload.open()
  await one.objectStorage!.uploader.run()
  assert.equal(objects.objects.size, 0)
  await one.service.pause(one.team, sandboxID, wish)
  await storedSoon(one, sandboxID)
})

test('a crash between the upload and the row costs nothing: the next round finds the object there', async (t) => {
  const { one, objects } = await openObjectCluster(t)
  objects.isGone = true
  const sandboxID = await paused(one)
  await one.objectStorage!.uploader.run()
  objects.isGone = false
  const row = (await one.stores.remoteBytes.findPaused(sandboxID))!
  const portable = (await one.driver.exportSnapshot(row.snapshotName))!
  await new ObjectPacks(objects).store(sandboxKey(row), portable.files, portable.note)
  await one.objectStorage!.uploader.run()
  assert.deepEqual((await storedOf(one, sandboxID))?.needs, { cpu: 'usual' })
})

test('memory of another kind of machine is rejected with the reason before the sandbox moves; its files boot', async (t) => {
  const { one, other } = await openObjectCluster(t)
  other.driver.world.cpu = 'lesser'
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  await assert.rejects(
    other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' }),
    /needs the CPU usual/,
  )
  assert.equal((await one.service.get(one.team, sandboxID)).state, 'paused')
  assert.equal(await other.objectStorage!.migrator.claim(sandboxID, { memory: false, from: 'one' }), true)
  await assert.rejects(other.service.connect(other.team, sandboxID, timed), failsWith('unprocessable'))
  await other.service.connect(other.team, sandboxID, { ...timed, memory: false })
  assert.deepEqual(contentOf(other, sandboxID), [undefined, 'file'])
})

test('a store that fails during a fetch leaves the sandbox paused, and the next resume succeeds', async (t) => {
  const { one, other, objects } = await openObjectCluster(t)
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' })
  objects.isGone = true
  await assert.rejects(other.service.connect(other.team, sandboxID, timed), failsWith('unavailable'))
  assert.equal((await other.service.get(other.team, sandboxID)).state, 'paused')
  objects.isGone = false
  await other.service.connect(other.team, sandboxID, timed)
  assert.deepEqual(contentOf(other, sandboxID), ['memory', 'file'])
})

test('a sandbox that moves there and back has its newest state', async (t) => {
  const { one, other } = await openObjectCluster(t)
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'one' })
  await other.service.connect(other.team, sandboxID, timed)
  other.driver.world.sandboxes.get(sandboxID)!.files.set('f', 'changed')
  await other.service.pause(other.team, sandboxID, wish)
  await storedSoon(other, sandboxID)
  assert.equal(await one.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'other' }), true)
  await one.service.connect(one.team, sandboxID, timed)
  assert.deepEqual(contentOf(one, sandboxID), ['memory', 'changed'])
})

test('objects that no row needs are removed after a delay', async (t) => {
  const { one, objects, clock } = await openObjectCluster(t)
  const [running, killed] = [await paused(one), await paused(one)]
  await storedSoon(one, running)
  await storedSoon(one, killed)
  await one.service.kill(one.team, killed)
  await one.objectStorage!.sweeper.run()
  assert.equal(objects.objects.size, 2)
  clock.advance(2 * 3_600_000)
  await one.objectStorage!.sweeper.run()
  const keys = [...objects.objects.keys()]
  assert.equal(keys.length, 1)
  assert.match(keys[0]!, new RegExp(running))
})

test('a build of one node starts on another once the object store has its layers and its snapshot', async (t) => {
  const { one, other, layers } = await openObjectCluster(t)
  const { sandboxID } = await one.service.create(one.team, request())
  one.driver.world.sandboxes.get(sandboxID)!.memory.set('m', 'of the template')
  const name = newUUID()
  const { handle } = await one.service.get(one.team, sandboxID)
  await one.snapshots.takeSnapshot(handle!, name, { memory: true, afterwards: 'go-on', lasting: true })
  const snapshot = { name, memory: true, sandboxID }
  const build = aBuild('basetemplate', {
    layers: ['sha256:a'],
    snapshot,
    buildID: name,
    createdAt: one.clock.now(),
  })
  await one.stores.templates.insertBuild(build, ['default'])
  const before = await other.stores.templates.findReadyBuild('basetemplate', 'default')
  assert.notEqual(before?.buildID, name)
  await one.objectStorage!.uploader.run()
  assert.ok(layers.stored.has('sha256:a'))
  const started = await other.service.create(other.team, request())
  assert.equal(started.buildID, name)
  assert.deepEqual(layers.fetched.slice(-1), ['sha256:a'])
  assert.equal(other.driver.world.sandboxes.get(started.sandboxID)?.memory.get('m'), 'of the template')
  await other.reconciler.run()
  assert.equal(other.driver.world.snapshots.has(name), true, 'it is kept for the next one')
  await other.stores.remoteBytes.unmarkBuild(name)
  await other.reconciler.run()
  assert.equal(other.driver.world.snapshots.has(name), false, 'a copy needs no quarantine')
})

test('a sandbox is taken over only from the node that was seen as its owner', async (t) => {
  const { one, other } = await openObjectCluster(t)
  const sandboxID = await paused(one)
  await storedSoon(one, sandboxID)
  assert.equal(await other.objectStorage!.migrator.claim(sandboxID, { memory: true, from: 'third' }), false)
  assert.equal((await one.service.get(one.team, sandboxID)).state, 'paused')
})

test('a build from before the object store is stored by names that mean the same files everywhere', async (t) => {
  const { one, other, layers } = await openObjectCluster(t)
  const build = aBuild('basetemplate', { layers: ['by recipe', 'b'], createdAt: 1 })
  await one.stores.templates.insertBuild(build, ['earlier'])
  layers.shared.set('by recipe', 'by bytes')
  await one.objectStorage!.uploader.run()
  assert.deepEqual([...layers.stored], ['by bytes', 'b'])
  assert.ok(await other.stores.remoteBytes.findStoredBuild(build.buildID))
  assert.deepEqual((await other.stores.templates.findBuild(build.buildID))?.layers, ['by bytes', 'b'])
})

test('the uploader forgets the problems of snapshots that are gone', async (t) => {
  const { one } = await openObjectCluster(t)
  const { uploader } = one.objectStorage!
  for (const problem of [new AppError('unprocessable', 'Only here.'), new Error('The disk is away.')]) {
    one.driver.exportSnapshot = () => Promise.reject(problem)
    const sandboxID = await paused(one)
    await uploader.run()
    assert.match(String(uploader.troubled), new RegExp(`^sandbox ${sandboxID} in run [^,]+$`))
    await one.service.kill(one.team, sandboxID)
    await uploader.run()
    assert.deepEqual(uploader.troubled, [])
  }
})
