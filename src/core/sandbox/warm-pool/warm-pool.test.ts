import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  type Fixture,
  failsWith,
  gate,
  openFixture,
  request,
  turning,
  until,
} from '../../../../test/support/domain.ts'
import {
  addTemplate,
  createAtOnce,
  createOne,
  passTime,
  poolHas,
  waiting,
} from '../../../../test/support/warm-pool.ts'

describe('the warm pool', () => {
  it('hands its sandboxes out with their ids, and boots others in their place', async () => {
    await using fixture = await openFixture({ warm: 2 })
    await createOne(fixture)
    const ids = await poolHas(fixture, 1)
    const second = await createOne(fixture)
    assert.ok(ids.includes(second.sandboxID))
    assert.equal(second.state, 'running')
    await poolHas(fixture, 2)
  })

  it('has sandboxes of its configured template before the first create', async () => {
    await using fixture = await openFixture({ warm: 2 })
    const { catalog, team, warm } = fixture
    warm.keepReady((await catalog.resolve(team, 'base')).build)
    const ids = await poolHas(fixture, 2)
    assert.ok(ids.includes((await createOne(fixture)).sandboxID))
  })

  it('drops a template that nobody used for an hour', async () => {
    await using fixture = await openFixture({ warm: 1 })
    await createOne(fixture)
    await poolHas(fixture, 1)
    await passTime(fixture, 61 * 60_000)
    await poolHas(fixture, 0)
  })

  it('gives a create only a sandbox of its own template', async () => {
    await using fixture = await openFixture({ warm: 1 })
    await addTemplate(fixture, 'other')
    await createOne(fixture)
    const ids = await poolHas(fixture, 1)
    assert.ok(!ids.includes((await createOne(fixture, 'other')).sandboxID))
    await poolHas(fixture, 2)
  })

  it("applies the owner's egress policy before the agent hears of the owner", async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { service, team, driver, agent } = fixture
    await createOne(fixture)
    const ids = await poolHas(fixture, 1)
    const before = agent.initialized.length
    driver.beforeLimited = async () => assert.equal(agent.initialized.length, before)
    const options = { ...request().options, allowInternetAccess: false }
    const closed = await service.create(team, request({ options }))
    assert.ok(ids.includes(closed.sandboxID))
    assert.equal(agent.initialized.length, before + 1)
    const { egress } = driver.world.sandboxes.get(closed.sandboxID)!.spec
    assert.deepEqual(egress, { allow: [], deny: ['0.0.0.0/0'], toGate: 'none' })
  })

  it('gives each agent the token of its id, so that nobody else can use it meanwhile', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { agent, tokens } = fixture
    await createOne(fixture)
    const [id] = await poolHas(fixture, 1)
    assert.equal(agent.initialized.at(-1), id)
    assert.equal((await createOne(fixture)).sandboxID, id)
    assert.equal(agent.knownBy.at(-1), tokens.agent(id!))
  })

  it('takes a sandbox back when the create is rejected', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { service, team } = fixture
    await createOne(fixture)
    const [id] = await poolHas(fixture, 1)
    const poor = { ...team, limits: { ...team.limits, maxSandboxes: 1 } }
    await assert.rejects(service.create(poor, request()), /maximum number/)
    assert.equal((await createOne(fixture)).sandboxID, id)
  })

  it('drops sandboxes that die in it', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { driver } = fixture
    await createOne(fixture)
    const [dead] = await poolHas(fixture, 1)
    driver.crash(dead!)
    const [id] = await poolHas(fixture, 1)
    assert.notEqual(id, dead)
    assert.equal((await createOne(fixture)).sandboxID, id)
    assert.equal(driver.world.sandboxes.has(dead!), false)
  })

  it('stops booting a template whose sandboxes die again and again, until the next create', async () => {
    await using fixture = await openFixture({ warm: 1 })
    await createOne(fixture)
    for (let deaths = 0; deaths < 4; deaths++) {
      const [id] = await poolHas(fixture, 1)
      fixture.driver.crash(id!)
    }
    await poolHas(fixture, 0)
    await passTime(fixture, 61_000)
    await poolHas(fixture, 0)
    await createOne(fixture)
    await poolHas(fixture, 1)
  })

  it('boots another sandbox for a create if the pooled one turns out to be unusable', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { driver, routes, reconciler } = fixture
    await createOne(fixture)
    const [id] = await poolHas(fixture, 1)
    // Too short a time ago for the driver to have told.
    driver.world.sandboxes.get(id!)!.running = false
    const sandbox = await createOne(fixture)
    assert.equal(sandbox.state, 'running')
    assert.equal(driver.world.sandboxes.get(sandbox.sandboxID)?.running, true)
    await reconciler.run()
    assert.ok(routes.get(sandbox.sandboxID))
  })

  it('is left alone by the reconciler of its own process, and removed by that of the next', async () => {
    await using before = await openFixture({ warm: 1 })
    const { sandboxID } = await before.service.create(before.team, request({ timeoutMs: 3_600_000 }))
    await poolHas(before, 1)
    await before.reconciler.run()
    assert.equal((await before.driver.list()).length, 2)
    await using fixture = await before.again()
    await fixture.reconciler.run()
    assert.deepEqual(
      (await fixture.driver.list()).map((found) => found.sandboxID),
      [sandboxID],
    )
  })

  it('holds disposable sandboxes only, and sandboxes with an owner are not disposable', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { driver } = fixture
    await createOne(fixture)
    const [id] = await poolHas(fixture, 1)
    assert.equal(driver.world.sandboxes.get(id!)?.spec.disposable, true)
    await createOne(fixture)
    assert.equal(driver.world.sandboxes.get(id!)?.spec.disposable, false)
  })

  it('is empty once Warren closes, boots in progress included; sandboxes in use keep running', async () => {
    await using fixture = await openFixture({ warm: 2 })
    const { warm, driver } = fixture
    const { sandboxID } = await createOne(fixture)
    await poolHas(fixture, 1)
    const { sandboxID: second } = await createOne(fixture)
    const boots = gate()
    driver.beforeStarted = () => boots.opened
    await passTime(fixture)
    assert.equal(driver.world.sandboxes.size, 4)
    await warm.close()
    assert.deepEqual([...driver.world.sandboxes.keys()], [sandboxID, second])
  })

  it('does not fail a create because a boot of the pool fails', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { driver } = fixture
    await createOne(fixture)
    driver.beforeStarted = async () => {
      driver.beforeStarted = async () => {}
      throw new Error('no more')
    }
    await poolHas(fixture, 0)
    await passTime(fixture)
    assert.equal((await createOne(fixture)).state, 'running')
    await poolHas(fixture, 1)
  })
})

describe('the warm pool of a machine with little to spare', () => {
  it('boots nothing while a create waits for its turn', async () => {
    await using fixture = await openFixture({ warm: 1, admission: { startsAtOnce: 1 } })
    const { driver } = fixture
    const boots = gate()
    driver.beforeStarted = () => boots.opened
    const creates = [createOne(fixture), createOne(fixture)]
    await until(async () => driver.world.sandboxes.size === 1)
    await passTime(fixture, 5000)
    assert.equal(driver.world.sandboxes.size, 1)
    boots.open()
    await Promise.all(creates)
    await passTime(fixture)
    await poolHas(fixture, 2)
  })

  it('boots no more at once than the machine has CPUs', async () => {
    const machine = { cpuCount: 2, memoryMB: 1e6, availableMemoryMB: async () => 1e6 }
    await using fixture = await openFixture({ warm: 5, ports: { machine } })
    const { driver, warm, catalog, team } = fixture
    const boots = gate()
    driver.beforeStarted = () => boots.opened
    warm.keepReady((await catalog.resolve(team, 'base')).build)
    await passTime(fixture, 5000)
    assert.equal(driver.world.sandboxes.size, 2)
    boots.open()
    for (let round = 0; round < 3; round++) await passTime(fixture)
    await poolHas(fixture, 5)
  })

  it('boots on half of the CPUs while creates come, and on all of them afterwards', async () => {
    const machine = { cpuCount: 4, memoryMB: 1e6, availableMemoryMB: async () => 1e6 }
    await using fixture = await openFixture({ warm: 4, ports: { machine } })
    const { driver, warm } = fixture
    await createAtOnce(fixture, 8)
    const boots = gate()
    driver.beforeStarted = () => boots.opened
    await passTime(fixture, 500)
    const beside = warm.count().booting
    await passTime(fixture, 1000)
    const afterwards = warm.count().booting
    boots.open()
    assert.deepEqual([beside, afterwards], [2, 4])
  })

  it('gives up its sandboxes for a create that the machine could not start otherwise', async () => {
    const machine = { cpuCount: 2, memoryMB: 1e6, availableMemoryMB: async () => 1e6 }
    // Three sandboxes of two CPUs each.
    const admission = { cpuOvercommit: 3 }
    await using fixture = await openFixture({ warm: 2, ports: { machine }, admission })
    await addTemplate(fixture, 'other')
    await createOne(fixture)
    await createOne(fixture)
    await poolHas(fixture, 1)
    const other = await createOne(fixture, 'other')
    assert.equal(other.state, 'running')
    assert.deepEqual(await waiting(fixture), [])
    await passTime(fixture, 5000)
    assert.deepEqual(await waiting(fixture), [])
    const rich = { ...fixture.team, limits: { ...fixture.team.limits, maxSandboxes: 9 } }
    const refused = turning(fixture.clock, fixture.service.create(rich, request()))
    await assert.rejects(refused, failsWith('unavailable'))
  })

  it('boots nothing while as many hand-overs are in progress as the machine has CPUs', async () => {
    const machine = { cpuCount: 2, memoryMB: 1e6, availableMemoryMB: async () => 1e6 }
    await using fixture = await openFixture({ warm: 2, ports: { machine } })
    const { agent, warm } = fixture
    await createOne(fixture)
    await createOne(fixture)
    await poolHas(fixture, 2)
    const handedOver = gate()
    const { initialize } = agent
    agent.initialize = async (endpoint, identity, options) => {
      await handedOver.opened
      await initialize(endpoint, identity, options)
    }
    const creates = createAtOnce(fixture, 2)
    await until(async () => warm.count().ready === 0)
    await passTime(fixture, 5000)
    const meanwhile = warm.count()
    handedOver.open()
    await creates
    assert.deepEqual(meanwhile, { ready: 0, booting: 0 })
    await until(async () => {
      await passTime(fixture)
      return warm.count().ready === 2
    })
  })

  it('stops all its sandboxes when the memory of the machine runs out', async () => {
    let availableMB = 1e6
    const machine = { cpuCount: 64, memoryMB: 1e6, availableMemoryMB: async () => availableMB }
    await using fixture = await openFixture({
      warm: 2,
      ports: { machine },
      admission: { minFreeMemoryMB: 500 },
    })
    await createOne(fixture)
    await poolHas(fixture, 1)
    availableMB = 400
    await passTime(fixture, 61_000)
    await poolHas(fixture, 0)
    availableMB = 900
    await passTime(fixture, 61_000)
    // As much as one is promised must stay beyond that.
    await poolHas(fixture, 0)
    availableMB = 1100
    await passTime(fixture, 61_000)
    await poolHas(fixture, 1)
  })
})

describe('the warm pool of a template with a service', () => {
  const service = { startCmd: 'serve', readyCmd: 'ask' }

  function serving({ agent }: Fixture): void {
    agent.runs = async (command) =>
      command === 'serve' ? new Promise(() => {}) : { exitCode: 0, status: 'exit status 0' }
  }

  it('restores sandboxes ahead, freezes them, and hands them out running', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { agent, driver, stores, tokens } = fixture
    serving(fixture)
    const build = await addTemplate(fixture, 'served', service)
    const snapshot = (await fixture.prepare(build))!
    await stores.templates.updateBuild(build.buildID, { snapshot })
    agent.ran.length = 0
    await createOne(fixture, 'served')
    const [id] = await poolHas(fixture, 1)
    assert.equal(agent.knownBy.at(-1), tokens.agent(snapshot.sandboxID))
    assert.equal(driver.world.sandboxes.get(id!)?.spec.fromSnapshot?.memory, true)
    await passTime(fixture, 9000)
    assert.equal(driver.world.sandboxes.get(id!)?.frozen, true)
    const created = await createOne(fixture, 'served')
    assert.equal(created.sandboxID, id)
    assert.equal(driver.world.sandboxes.get(id!)?.frozen, false)
    assert.deepEqual(agent.ran, [])
  })

  it("starts the service ahead if snapshots have no memory, before the owner's data is there", async () => {
    await using fixture = await openFixture({ warm: 1, snapshotMemory: false })
    const { agent, driver, service: sandboxes, team } = fixture
    serving(fixture)
    await addTemplate(fixture, 'served', { ...service, envVars: { FROM: 'template' } })
    const seen: object[] = []
    const { initialize } = agent
    agent.initialize = async (endpoint, identity, options) => {
      seen.push({ ran: agent.ran.length, owner: identity.envVars?.OWNER })
      await initialize(endpoint, identity, options)
    }
    const owned = request({ template: 'served', envVars: { OWNER: 'me' } })
    const cold = [
      { ran: 0, owner: undefined },
      { ran: 2, owner: 'me' },
    ]
    await sandboxes.create(team, owned)
    assert.deepEqual(seen.splice(0), cold)
    agent.ran.length = 0
    const [id] = await poolHas(fixture, 1)
    assert.deepEqual(agent.ran, ['serve', 'ask'])
    await passTime(fixture, 9000)
    assert.equal(driver.world.sandboxes.get(id!)?.frozen, true)
    assert.equal((await sandboxes.create(team, owned)).sandboxID, id)
    assert.deepEqual(seen, cold)
  })

  it('does not freeze a sandbox that was handed out meanwhile', async () => {
    await using fixture = await openFixture({ warm: 1, snapshotMemory: false })
    serving(fixture)
    await addTemplate(fixture, 'served', service)
    await createOne(fixture, 'served')
    await poolHas(fixture, 1)
    const { sandboxID } = await createOne(fixture, 'served')
    await passTime(fixture, 10_000)
    assert.equal(fixture.driver.world.sandboxes.get(sandboxID)?.frozen, false)
  })

  it('freezes a sandbox that a rejected create gave back, once', async () => {
    await using fixture = await openFixture({ warm: 1, snapshotMemory: false })
    const { service: sandboxes, team } = fixture
    serving(fixture)
    await addTemplate(fixture, 'served', service)
    await createOne(fixture, 'served')
    const [id] = await poolHas(fixture, 1)
    const poor = { ...team, limits: { ...team.limits, maxSandboxes: 1 } }
    let freezes = 0
    fixture.driver.beforeFrozen = async () => void freezes++
    for (let time = 0; time < 2; time++) {
      await assert.rejects(sandboxes.create(poor, request({ template: 'served' })), /maximum number/)
      await passTime(fixture, 9000)
    }
    assert.deepEqual([await waiting(fixture), freezes], [[id], 1])
    assert.equal(fixture.driver.world.sandboxes.get(id!)?.frozen, true)
  })

  it('is removed with its template, and follows a new build of it', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { team, warm, remover, service: sandboxes } = fixture
    const build = await addTemplate(fixture, 'served')
    const { sandboxID } = await createOne(fixture, 'served')
    const [old] = await poolHas(fixture, 1)
    await warm.replace({ ...build, buildID: 'build-new' })
    const [fresh] = await poolHas(fixture, 1)
    assert.notEqual(fresh, old)
    await sandboxes.kill(team, sandboxID)
    await remover.remove(team, 'served')
    assert.deepEqual(await waiting(fixture), [])
    await warm.replace({ ...build, buildID: 'build-newest' })
    await poolHas(fixture, 0)
  })
})
