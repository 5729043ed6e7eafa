import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openBuilder, runs, someHash } from '../../../test/support/builder.ts'
import { request } from '../../../test/support/domain.ts'
import { noAgent } from '../../drivers/driver-fixture.ts'
import { newTemplateID, newUUID } from '../../lib/ids.ts'
import { openRules } from '../ports/egress.ts'
import type { BuildResult } from '../template/builder.ts'
import type { Pruner } from './pruner.ts'

const image = { source: { image: 'debian:12' } }

async function openPruner() {
  const builder = await openBuilder()
  const { fixture } = builder
  const { stores, clock, team, snapshots, driver, pruner } = fixture
  const { templates } = stores
  // Files carry the machine's time.
  clock.advance(Date.now() - clock.now() + 1000)
  return {
    ...builder,
    pruner,
    stores,
    clock,
    snapshots,
    prune: (dryRun = false, before = clock.now() + 1) => pruner.run({ before, dryRun }),
    states: () => [...driver.world.snapshots.keys()],
    /** Writes a build down as that of a template. */
    own: async (result: BuildResult, status: 'ready' | 'building' = 'ready') => {
      const now = clock.now()
      const times = { createdAt: now, updatedAt: now }
      const template = { templateID: newTemplateID(), teamID: team.teamID, public: false, isSnapshot: false }
      await templates.insertTemplate({ ...template, ...times, lastSpawnedAt: null, spawnCount: 0 }, [])
      const row = { ...(await builder.asTemplate(result)), ...times, status, buildID: newUUID() }
      await templates.insertBuild({ ...row, templateID: template.templateID }, ['default'])
      return template.templateID
    },
    [Symbol.asyncDispose]: () => builder[Symbol.asyncDispose](),
  }
}

const countsOf = (report: Awaited<ReturnType<Pruner['run']>>) =>
  [report.steps, report.savedStates, report.layers, report.files].map(({ count }) => count)

describe('pruning', () => {
  it('removes cached steps, layers and files that nothing needs, and a dry run only lists them', async () => {
    await using world = await openPruner()
    await world.build({ ...image, steps: runs('one', 'two') })
    await world.upload('files')
    world.clock.advance(2000)
    const planned = await world.prune(true)
    assert.deepEqual(countsOf(planned), [4, 3, 2, 1])
    assert.deepEqual([world.states().length, world.images.here.size], [3, 2])
    assert.deepEqual(await world.prune(), planned)
    assert.deepEqual([world.states(), world.images.here.size], [[], 0])
    assert.deepEqual([await world.stores.buildCache.list(), await world.files.list()], [[], []])
    assert.deepEqual(countsOf(await world.prune()), [0, 0, 0, 0])
  })

  it('keeps the layers of a template, and a cached step that costs nothing extra', async () => {
    await using world = await openPruner()
    const { result } = await world.build({ ...image, steps: runs('one', 'two') })
    const templateID = await world.own(result)
    world.clock.advance(1)
    assert.deepEqual(countsOf(await world.prune()), [2, 2, 0, 0])
    assert.deepEqual(world.states(), [result.snapshot!.name])
    assert.equal((await world.stores.buildCache.list()).length, 2)
    await world.stores.templates.deleteUnused(templateID)
    assert.deepEqual(countsOf(await world.prune()), [2, 1, 2, 0])
    assert.deepEqual(world.states(), [])
  })

  it('keeps everything that was used since the given time', async () => {
    await using world = await openPruner()
    await world.build({ ...image, steps: runs('old') })
    world.clock.advance(10_000)
    const before = world.clock.now()
    await world.build({ ...image, steps: runs('new') })
    assert.deepEqual(countsOf(await world.prune(false, before)), [2, 1, 0, 0])
    assert.equal((await world.stores.buildCache.list()).length, 3)
  })

  it('keeps everything that an unfinished build may have used, its files included', async () => {
    await using world = await openPruner()
    const { result } = await world.build({ ...image, steps: runs('before') })
    world.clock.advance(10_000)
    const templateID = await world.own({ ...result, snapshot: null, layers: null }, 'building')
    world.clock.advance(10_000)
    await world.build({ ...image, steps: runs('since') })
    await world.upload('files', someHash)
    assert.deepEqual(countsOf(await world.prune(true)), [2, 1, 0, 1])
    await world.stores.templates.deleteUnused(templateID)
    world.clock.advance(1)
    assert.deepEqual(countsOf(await world.prune(true)), [5, 3, 2, 1])
  })

  it('keeps the snapshots of paused sandboxes', async () => {
    await using world = await openPruner()
    const { service, team } = world.fixture
    const { sandboxID } = await service.create(team, request())
    await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
    assert.deepEqual(countsOf(await world.prune()), [0, 0, 0, 0])
    assert.equal(world.states().length, 1)
    await service.connect(team, sandboxID, { timeoutMs: 1000, memory: true })
    await service.kill(team, sandboxID)
  })

  it('tells the images which folders sandboxes and snapshots use', async () => {
    await using world = await openPruner()
    const { driver } = world.fixture
    const spec = { sandboxID: 's1', runID: 'r', cpuCount: 1, memoryMB: 1, diskMB: 1, egress: openRules }
    await driver.prepare('/layers/a/root')
    const roots = { agent: noAgent, rootFolder: '/layers/a/root', lowerFolders: ['/layers/b/root'] }
    const handle = await driver.start({ ...spec, ...roots })
    await driver.takeSnapshot(handle, 'step-kept', { memory: false, afterwards: 'end', lasting: true })
    const release = world.snapshots.protect('step-kept')
    const events: string[][] = []
    world.images.prune = async ({ folders }) => {
      events.push([...folders])
      return { count: 0, bytes: 0 }
    }
    await world.prune()
    await driver.start({
      ...spec,
      ...roots,
      fromSnapshot: { folder: 'step-kept', memory: false, keepSnapshot: false },
    })
    release()
    await world.prune()
    assert.deepEqual(events, [
      ['/layers/a/root', '/layers/b/root'],
      ['/layers/a/root', '/layers/b/root'],
    ])
  })

  it('never removes the layers of running builds, up to the moment when they are recorded', async () => {
    await using world = await openPruner()
    // No row says that these builds run: what they hold must be enough.
    const pruneAll = async () => {
      world.clock.advance(1)
      await world.prune()
      await world.fixture.reconciler.run()
      assert.deepEqual(world.images.missing(world.pulled.layers), [])
    }
    world.fixture.agent.runs = async (command, { sandbox }) => {
      if (command === 'serve') return new Promise(() => {})
      await pruneAll()
      sandbox.files.set(command, '')
      return { exitCode: 0, status: 'exit status 0' }
    }
    const base = await world.baseBuild()
    let written = 0
    const build = async (name: string, service: { startCmd: string | null; readyCmd: string | null }) => {
      for (let number = 0; number < 5; number++) {
        const steps = runs('shared', `${name}-${number}`)
        const id = { build: { ...base, buildID: newUUID() }, teamID: world.fixture.team.teamID }
        const onResult = async (result: BuildResult) => {
          await pruneAll()
          const unpruned = world.fixture.driver.world.snapshots.get(result.snapshot!.name)
          assert.deepEqual([...unpruned!.content.files.keys()].slice(1, 3), ['shared', `${name}-${number}`])
          await world.own(result)
          written++
        }
        const job = { ...id, ...image, steps, ...service, force: false }
        await world.builder.run(job, () => {}, new AbortController().signal, onResult)
      }
    }
    const [bare, serving] = [
      { startCmd: null, readyCmd: null },
      { startCmd: 'serve', readyCmd: 'true' },
    ]
    await Promise.all([build('a', bare), build('b', serving), build('c', bare)])
    assert.equal(written, 15)
    await pruneAll()
    assert.equal(world.states().length, 15)
    assert.ok([...world.images.protections.values()].every((count) => count === 0))
  })
})
