import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { failsWith, gate, openFixture, request, until } from '../../../../test/support/domain.ts'
import { AppError } from '../../../lib/app-error.ts'
import { parseTemplateName } from '../../template/reference.ts'
import { parseOwnName } from '../../template/service.ts'
import { SandboxTokens } from '../row/tokens.ts'

const tokens = new SandboxTokens('seed')
const snapshot = { memory: true }

describe('forking a sandbox', () => {
  it('starts others with the same memory and files, and with identities of their own', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, agent, clock } = fixture
    const origin = await service.create(team, request({ envVars: { A: '1' }, metadata: { b: '2' } }))
    driver.world.sandboxes.get(origin.sandboxID)!.memory.set('m', 'memory')
    const outcomes = await service.fork(team, origin.sandboxID, { timeoutMs: 30_000, count: 2 })
    const forks = outcomes.map((outcome) => ('sandbox' in outcome ? outcome.sandbox : assert.fail()))
    assert.equal(new Set([origin, ...forks].map(({ sandboxID }) => sandboxID)).size, 3)
    for (const fork of forks) {
      assert.equal(driver.world.sandboxes.get(fork.sandboxID)?.memory.get('m'), 'memory')
      assert.deepEqual(
        [fork.envVars, fork.metadata, fork.templateID],
        [origin.envVars, origin.metadata, origin.templateID],
      )
      assert.equal(fork.endAt, clock.now() + 30_000)
    }
    const after = await service.get(team, origin.sandboxID)
    assert.deepEqual([after.state, after.endAt, after.runID], ['running', origin.endAt, origin.runID])
    const known = tokens.agent(origin.sandboxID)
    assert.deepEqual(agent.knownBy, [undefined, known, known])
    assert.equal(driver.world.snapshots.size, 0)
  })

  it('reports each fork by itself, and is rejected if not all could ever run', async () => {
    await using fixture = await openFixture()
    const { service, team } = fixture
    const { sandboxID } = await service.create(team, request())
    await service.create(team, request())
    const outcomes = await service.fork(team, sandboxID, { timeoutMs: 1000, count: 2 })
    const errors = outcomes.flatMap((outcome) => ('error' in outcome ? [outcome.error] : []))
    assert.equal(errors.length, 1)
    assert.ok(failsWith('limit_reached')(errors[0]))
    await assert.rejects(service.fork(team, sandboxID, { timeoutMs: 1000, count: 3 }), /too many/)
    await assert.rejects(service.fork(team, sandboxID, { timeoutMs: 0, count: 1 }), /greater than 0/)
  })

  it('leaves the sandbox running if no snapshot can be taken', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    const { sandboxID } = await service.create(team, request())
    driver.beforeSnapshot = async () => {
      throw new AppError('no_space', 'full')
    }
    await assert.rejects(service.fork(team, sandboxID, { timeoutMs: 1000, count: 1 }), failsWith('no_space'))
    assert.equal((await service.get(team, sandboxID)).state, 'running')
  })

  it('is rejected while a process has a network of its own or may have one, as is a snapshot with memory', async () => {
    await using fixture = await openFixture()
    const { service, team, agent, driver } = fixture
    const { sandboxID } = await service.create(team, request())
    for (const [networks, code] of [
      ['some', 'unprocessable'],
      ['unknown', 'unavailable'],
    ] as const) {
      agent.otherNetworks = networks
      await assert.rejects(service.fork(team, sandboxID, { timeoutMs: 1000, count: 1 }), failsWith(code))
      await assert.rejects(service.snapshot(team, sandboxID, snapshot), failsWith(code))
    }
    assert.equal((await service.get(team, sandboxID)).state, 'running')
    assert.equal(driver.world.snapshots.size, 0)
    await service.snapshot(team, sandboxID, { memory: false })
    assert.equal(driver.world.snapshots.size, 1)
  })

  it('ends with a kill, and delays the expiry of the sandbox', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, clock, stores } = fixture
    const saving = gate()
    driver.beforeSnapshot = () => saving.opened
    const [killed, expired] = [await service.create(team, request()), await service.create(team, request())]
    const forks = [killed, expired].map(({ sandboxID }) =>
      service.fork(team, sandboxID, { timeoutMs: 1000, count: 1 }).catch((error) => error),
    )
    const stateOf = async ({ sandboxID }: { sandboxID: string }) =>
      (await stores.sandboxes.find(sandboxID))!.state
    await until(async () => (await stateOf(killed)) === 'snapshotting')
    await until(async () => (await stateOf(expired)) === 'snapshotting')
    await service.kill(team, killed.sandboxID)
    assert.match(String(await forks[0]), /killed while it was being copied/)
    clock.advance(60_000)
    assert.equal(await stateOf(expired), 'snapshotting')
    saving.open()
    await forks[1]
    clock.advance(1)
    await until(async () => (await stateOf(expired)) === 'ended')
  })
})

describe('a snapshot', () => {
  it('is waited for by a new timeout, also by one that read the row just before the fork changed it', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, stores, faults, clock } = fixture
    const { sandboxID } = await service.create(team, request())
    const [blocked, isForking] = [gate(), gate()]
    driver.beforeSnapshot = () => blocked.opened
    const stateOf = async () => (await stores.sandboxes.find(sandboxID))?.state
    let forked: Promise<unknown> | undefined
    faults.before = async (method) => {
      if (method !== 'setEnd' || forked) return
      forked = service.fork(team, sandboxID, { timeoutMs: 1000, count: 1 })
      await until(async () => (await stateOf()) === 'snapshotting')
      isForking.open()
    }
    const early = service.setTimeout(team, sandboxID, 80_000)
    await isForking.opened
    const late = service.setTimeout(team, sandboxID, 80_000)
    blocked.open()
    await Promise.all([early, late, forked])
    assert.equal((await service.get(team, sandboxID)).endAt, clock.now() + 80_000)
  })

  it('is waited for by a pause, and by several of them, with and without memory', async () => {
    for (const snapshotMemory of [true, false]) {
      await using fixture = await openFixture({ snapshotMemory })
      const { service, team, driver, stores } = fixture
      const { sandboxID } = await service.create(team, request())
      const saving = gate()
      driver.beforeSnapshot = () => saving.opened
      const snapshotting = service.snapshot(team, sandboxID, snapshot)
      await until(async () => (await stores.sandboxes.find(sandboxID))?.state === 'snapshotting')
      const options = { memory: true, requireHealthyAgent: false }
      const pauses = [1, 2, 3].map(() => service.pause(team, sandboxID, options))
      let isOver = false
      void Promise.race(pauses).finally(() => {
        isOver = true
      })
      assert.equal((await service.get(team, sandboxID)).state, 'snapshotting')
      assert.equal(isOver, false)
      saving.open()
      assert.match((await snapshotting).snapshotID, /:default$/)
      await Promise.all(pauses)
      assert.equal((await service.get(team, sandboxID)).state, 'paused')
    }
  })

  it('becomes a template that sandboxes start from', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, agent, catalog } = fixture
    const origin = await service.create(team, request({ envVars: { A: '1' } }))
    driver.world.sandboxes.get(origin.sandboxID)!.memory.set('m', 'memory')
    const named = await service.snapshot(team, origin.sandboxID, {
      ...snapshot,
      name: parseTemplateName('Mine:V1'),
    })
    assert.deepEqual(named, { snapshotID: 'alpha/mine:v1', names: ['alpha/mine'] })
    const unnamed = await service.snapshot(team, origin.sandboxID, snapshot)
    assert.match(unnamed.snapshotID, /^[a-z0-9]{20}:default$/)
    await service.kill(team, origin.sandboxID)
    for (const template of [named.snapshotID, 'mine:v1', unnamed.snapshotID]) {
      const { sandboxID, envVars } = await service.create(team, request({ template, envVars: { B: '2' } }))
      assert.equal(driver.world.sandboxes.get(sandboxID)?.memory.get('m'), 'memory')
      assert.deepEqual(envVars, { A: '1', B: '2' })
      assert.equal(agent.knownBy.at(-1), tokens.agent(origin.sandboxID))
    }
    assert.equal((await catalog.resolve(team, 'mine:v1')).build.envVars.A, undefined)
  })

  it('gives the variables of its sandbox to its own team, and to nobody else once it is public', async () => {
    await using fixture = await openFixture()
    const { service, team, teams, catalog, templates, driver } = fixture
    const { build } = await catalog.resolve(team, 'base')
    const origin = await service.create(team, request({ envVars: { SECRET: '1', LANG: 'de' } }))
    const name = parseTemplateName('mine')
    await service.snapshot(team, origin.sandboxID, { ...snapshot, name })
    const { template } = await catalog.resolve(team, 'mine')
    await templates.setPublic(team, template.templateID, true, false)
    const other = await teams.createTeam('other')
    const theirs = await service.create(other, request({ template: 'alpha/mine', envVars: { B: '2' } }))
    assert.deepEqual(theirs.envVars, { B: '2' })
    assert.deepEqual((await catalog.resolve(other, 'alpha/mine')).build.envVars, build.envVars)
    await service.snapshot(other, theirs.sandboxID, { ...snapshot, name: parseTemplateName('theirs') })
    const again = await service.create(other, request({ template: 'theirs' }))
    assert.deepEqual(again.envVars, { B: '2' })
    assert.ok(driver.world.sandboxes.has(again.sandboxID))
  })

  it('under a known name is a new build of that template', async () => {
    await using fixture = await openFixture()
    const { service, team, catalog, clock } = fixture
    const { sandboxID } = await service.create(team, request())
    const name = parseTemplateName('mine')
    await service.snapshot(team, sandboxID, { ...snapshot, name })
    const first = await catalog.resolve(team, 'mine')
    clock.advance(1)
    await Promise.all([
      service.snapshot(team, sandboxID, { ...snapshot, name }),
      service.snapshot(team, sandboxID, { ...snapshot, name: parseTemplateName('other') }).catch(() => {}),
    ])
    const second = await catalog.resolve(team, 'mine')
    assert.equal(second.template.templateID, first.template.templateID)
    assert.notEqual(second.build.buildID, first.build.buildID)
  })

  it('is rejected under the name of another team', async () => {
    await using fixture = await openFixture()
    const { team } = fixture
    assert.throws(() => parseOwnName(team, 'beta/mine'), /namespace of your team/)
    assert.throws(() => parseTemplateName('a b'), /Invalid name/)
  })

  it('is listed newest first, by sandbox and by name, and deleted once nothing uses it', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, catalog, remover, clock } = fixture
    const [one, two] = [await service.create(team, request()), await service.create(team, request())]
    const a = await service.snapshot(team, one.sandboxID, { ...snapshot, name: parseTemplateName('a') })
    clock.advance(1)
    const b = await service.snapshot(team, two.sandboxID, snapshot)
    const list = async (filter = {}) =>
      (await catalog.listSnapshots(team, filter, { limit: 10 })).map(({ snapshotID }) => snapshotID)
    assert.deepEqual(await list(), [b.snapshotID, a.snapshotID])
    assert.deepEqual(await list({ sandboxID: one.sandboxID }), [a.snapshotID])
    assert.deepEqual(await list({ name: 'a' }), [a.snapshotID])
    assert.deepEqual(await list({ name: 'a:other' }), [])
    assert.deepEqual(await list({ name: 'nowhere' }), [])
    const user = await service.create(team, request({ template: 'a' }))
    await assert.rejects(remover.remove(team, a.snapshotID), /running sandboxes using it/)
    await service.pause(team, user.sandboxID, { memory: true, requireHealthyAgent: false })
    await assert.rejects(remover.remove(team, 'a'), /paused sandboxes using it/)
    await service.kill(team, user.sandboxID)
    await remover.remove(team, a.snapshotID)
    await assert.rejects(remover.remove(team, a.snapshotID), failsWith('not_found'))
    await assert.rejects(remover.remove(team, 'base'), failsWith('permission_denied'))
    assert.equal(driver.world.snapshots.size, 1)
  })
})

describe('after a crash in a copy', () => {
  it('the sandbox keeps running, and snapshots without an owner are removed', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, stores } = fixture
    const { sandboxID, runID, handle } = await service.create(team, request())
    const snapshotted = await service.snapshot(team, sandboxID, snapshot)
    await stores.sandboxes.transition({ sandboxID, runID, from: ['running'] }, 'snapshotting')
    await driver.takeSnapshot(handle!, 'fork-x', { memory: true, afterwards: 'go-on', lasting: false })
    await driver.freeze(handle!)
    await using next = await fixture.again()
    await next.reconciler.run()
    assert.equal((await next.service.get(team, sandboxID)).state, 'running')
    assert.equal(await next.driver.recover(handle!), 'running')
    assert.equal(next.driver.world.snapshots.size, 1)
    await next.service.create(team, request({ template: snapshotted.snapshotID }))
  })
})
