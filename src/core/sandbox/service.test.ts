import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Fixture, failsWith, gate, openFixture, request, until } from '../../../test/support/domain.ts'
import { AppError } from '../../lib/app-error.ts'
import type { SandboxStore } from './row/sandbox-store.ts'

/** A create whose sandbox is started, and whose start is answered once `open` is called. */
function startingCreate({ service, team, driver }: Fixture) {
  const { open, opened } = gate()
  const started = gate()
  driver.beforeStarted = async () => {
    started.open()
    await opened
  }
  return { creating: service.create(team, request()), started, open }
}

describe('creating a sandbox', () => {
  it('starts it, initializes the agent, opens its route and counts the use of its template', async () => {
    await using fixture = await openFixture()
    const { service, team, agent, routes, stores, clock } = fixture
    const sandbox = await service.create(team, request())
    assert.equal(sandbox.state, 'running')
    assert.equal(sandbox.endAt, clock.now() + 60_000)
    assert.deepEqual(agent.initialized, [sandbox.sandboxID])
    assert.equal(routes.get(sandbox.sandboxID)?.runID, sandbox.runID)
    fixture.clock.advance(250)
    await until(async () => (await stores.templates.findByID('basetemplate'))?.spawnCount === 1)
  })

  it('counts against the capacity of the machine until its row does, however slow the database is', async () => {
    const one = { cpuOvercommit: 1, startsAtOnce: 10 }
    const ports = { machine: { cpuCount: 2, memoryMB: 100_000, availableMemoryMB: async () => 100_000 } }
    await using fixture = await openFixture({ admission: one, ports })
    const { service, team, faults, clock } = fixture
    const answered = gate()
    faults.before = async (method, [, to]) => {
      if (method === 'transition' && to === 'running') await answered.opened
    }
    const first = service.create(team, request())
    await until(async () => (await fixture.driver.list()).length === 1)
    const second = assert.rejects(service.create(team, request()), failsWith('unavailable'))
    for (let round = 0; round < 100; round++) {
      clock.advance(500)
      await new Promise((resolve) => setImmediate(resolve))
    }
    answered.open()
    await first
    await second
    assert.equal((await fixture.driver.list()).length, 1)
  })

  it("leaves nothing behind if the start fails, and the runtime's message is only in the log", async () => {
    await using fixture = await openFixture()
    const { service, team, driver, stores } = fixture
    driver.beforeStarted = async () => {
      throw new Error('the runtime is out of sorts')
    }
    await assert.rejects(service.create(team, request()), (error: Error) => {
      assert.equal(error.message, 'The sandbox could not be started: the log of the server has the cause.')
      assert.match(String(error.cause), /the runtime is out of sorts/)
      return true
    })
    assert.deepEqual(await driver.list(), [])
    assert.deepEqual(await stores.sandboxes.listUnended(), [])
  })

  it('stops the sandbox again if its agent never answers', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, agent, stores } = fixture
    agent.fail = new AppError('deadline_exceeded', 'the agent did not answer')
    await assert.rejects(service.create(team, request()), failsWith('deadline_exceeded'))
    assert.deepEqual(await driver.list(), [])
    assert.deepEqual(await stores.sandboxes.listUnended(), [])
  })

  it('fails at once, with the reason, if the processes die before the agent answers', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, agent, stores } = fixture
    const isAsked = gate()
    agent.initialize = (_agent, _identity, { signal }) =>
      new Promise((_, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
        isAsked.open()
      })
    const created = service.create(team, request())
    await isAsked.opened
    const { sandboxID } = (await driver.list())[0]!
    driver.crash(sandboxID, { detail: 'It ran out of memory.' })
    await assert.rejects(
      created,
      /could not be started: its processes ended before it was ready\. It ran out of memory\./,
    )
    assert.deepEqual(await driver.list(), [])
    assert.deepEqual(await stores.sandboxes.listUnended(), [])
  })

  it('stops the sandbox if it is killed just before its row becomes running', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, stores, faults } = fixture
    let killed: Promise<void> | undefined
    faults.before = async (method, [at, to]) => {
      if (method !== 'transition' || to !== 'running' || killed) return
      const { sandboxID } = at as { sandboxID: string }
      killed = service.kill(team, sandboxID)
      await until(async () => (await stores.sandboxes.find(sandboxID))?.state === 'killing')
    }
    await assert.rejects(service.create(team, request()), failsWith('conflict'))
    await killed
    assert.deepEqual(await driver.list(), [])
    assert.deepEqual(await stores.sandboxes.listUnended(), [])
  })

  it('is rejected beyond the limit of the team, also for creates at the same moment', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    const outcomes = await Promise.allSettled(
      Array.from({ length: 6 }, () => service.create(team, request())),
    )
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
    assert.equal(refused.length, 3)
    for (const { reason } of refused) {
      assert.ok(failsWith('limit_reached')(reason))
      assert.equal((reason as AppError).retry?.should, false)
    }
    assert.equal((await driver.list()).length, 3)
  })

  it('returns the same sandbox for the same idempotency key, before and after the first answer', async () => {
    await using fixture = await openFixture()
    const { service, team } = fixture
    const claim = { key: 'k', requestHash: 'h' }
    const both = await Promise.all([1, 2].map(() => service.create(team, request(), claim)))
    const later = await service.create(team, request(), claim)
    assert.deepEqual(new Set([...both, later].map((sandbox) => sandbox.sandboxID)).size, 1)
    await assert.rejects(
      service.create(team, request(), { key: 'k', requestHash: 'other' }),
      failsWith('unprocessable'),
    )
  })

  it('may be repeated with the same key if the first try failed', async () => {
    await using fixture = await openFixture()
    const { service, team, agent } = fixture
    const claim = { key: 'k', requestHash: 'h' }
    agent.fail = new Error('no')
    await assert.rejects(service.create(team, request(), claim))
    agent.fail = undefined
    assert.equal((await service.create(team, request(), claim)).state, 'running')
  })

  it('rejects a timeout of zero and one beyond the maximum', async () => {
    await using fixture = await openFixture()
    const { service, team } = fixture
    await assert.rejects(service.create(team, request({ timeoutMs: 0 })), /greater than 0/)
    await assert.rejects(
      service.create(team, request({ timeoutMs: 25 * 3_600_000 })),
      /greater than 24 hours/,
    )
  })
})

describe('killing a sandbox', () => {
  it('removes its route, stops it and hides it', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, routes } = fixture
    const { sandboxID } = await service.create(team, request())
    const cut: string[] = []
    routes.onRemove((route) => void cut.push(route.sandboxID))
    await service.kill(team, sandboxID)
    assert.deepEqual(cut, [sandboxID])
    assert.deepEqual(await driver.list(), [])
    await assert.rejects(service.get(team, sandboxID), failsWith('not_found'))
    await assert.rejects(service.kill(team, sandboxID), failsWith('not_found'))
  })

  it('ends it once if two kills come at once, and both callers succeed', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    const { sandboxID } = await service.create(team, request())
    let stops = 0
    driver.beforeStopped = async () => void stops++
    await Promise.all([service.kill(team, sandboxID), service.kill(team, sandboxID)])
    assert.equal(stops, 1)
  })

  it('undoes a create in progress, whose caller gets a conflict', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, stores } = fixture
    const { creating, started, open } = startingCreate(fixture)
    const outcome = assert.rejects(creating, failsWith('conflict'))
    await started.opened
    const [row] = await stores.sandboxes.listUnended()
    await service.kill(team, row!.sandboxID)
    open()
    await outcome
    assert.deepEqual(await driver.list(), [])
    assert.deepEqual(await stores.sandboxes.listUnended(), [])
  })

  it('is not_found for another team', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    const { sandboxID } = await service.create(team, request())
    const stranger = { ...team, teamID: 'team-beta' }
    await assert.rejects(service.kill(stranger, sandboxID), failsWith('not_found'))
    await assert.rejects(service.get(stranger, sandboxID), failsWith('not_found'))
    await assert.rejects(service.setTimeout(stranger, sandboxID, 1), failsWith('not_found'))
    assert.equal((await driver.list()).length, 1)
  })
})

describe('the lifetime of a sandbox', () => {
  it('ends at its timeout', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, stores } = fixture
    const { sandboxID } = await service.create(team, request({ timeoutMs: 5000 }))
    clock.advance(4999)
    assert.equal((await service.get(team, sandboxID)).state, 'running')
    clock.advance(1)
    await until(async () => (await stores.sandboxes.find(sandboxID))?.state === 'ended')
    assert.equal((await stores.sandboxes.find(sandboxID))?.endReason, 'timeout')
  })

  it('is extended by connect and never shortened by it', async () => {
    await using fixture = await openFixture()
    const { service, team, clock } = fixture
    const { sandboxID } = await service.create(team, request({ timeoutMs: 60_000 }))
    const connect = async (timeoutMs: number) =>
      (await service.connect(team, sandboxID, { timeoutMs, memory: true })).sandbox
    assert.equal((await connect(1000)).endAt, clock.now() + 60_000)
    assert.equal((await connect(90_000)).endAt, clock.now() + 90_000)
  })

  it('can be extended and shortened by set-timeout, and 0 ends it now', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, stores } = fixture
    const { sandboxID } = await service.create(team, request())
    await service.setTimeout(team, sandboxID, 5000)
    assert.equal((await service.get(team, sandboxID)).endAt, clock.now() + 5000)
    await service.setTimeout(team, sandboxID, 0)
    clock.advance(0)
    await until(async () => (await stores.sandboxes.find(sandboxID))?.state === 'ended')
  })

  it('is not replaced by an earlier set-timeout that reaches the database only now', async () => {
    await using fixture = await openFixture()
    const { service, team, clock, faults, stores } = fixture
    const { sandboxID } = await service.create(team, request())
    let late: Parameters<SandboxStore['setEnd']> | undefined
    faults.before = (method, args) => {
      if (method !== 'setEnd' || late) return
      late = args as Parameters<SandboxStore['setEnd']>
      throw new Error('its process died')
    }
    await assert.rejects(service.setTimeout(team, sandboxID, 1000), /its process died/)
    await service.setTimeout(team, sandboxID, 90_000)
    assert.equal(await stores.sandboxes.setEnd(...late!), undefined)
    assert.equal((await service.get(team, sandboxID)).endAt, clock.now() + 90_000)
  })

  it('is changed in turn by set-timeouts at the same time, and each is done', async () => {
    await using fixture = await openFixture()
    const { service, team, clock } = fixture
    const { sandboxID } = await service.create(team, request())
    await Promise.all([10_000, 20_000, 30_000].map((ms) => service.setTimeout(team, sandboxID, ms)))
    const { endAt } = await service.get(team, sandboxID)
    assert.ok([10_000, 20_000, 30_000].includes(endAt - clock.now()))
  })

  it('is refreshed by at least 15 seconds', async () => {
    await using fixture = await openFixture()
    const { service, team, clock } = fixture
    const { sandboxID } = await service.create(team, request({ timeoutMs: 1000 }))
    await service.refresh(team, sandboxID, 0)
    assert.equal((await service.get(team, sandboxID)).endAt, clock.now() + 15_000)
  })

  it('never exceeds the maximum of the team, counted from its start', async () => {
    await using fixture = await openFixture()
    const { service, team, clock } = fixture
    const brief = { ...team, limits: { ...team.limits, maxLifetimeHours: 1 } }
    const sandbox = await service.create(brief, request({ timeoutMs: 3_600_000 }))
    clock.advance(3_000_000)
    await service.setTimeout(brief, sandbox.sandboxID, 3_600_000)
    assert.equal((await service.get(brief, sandbox.sandboxID)).endAt, sandbox.startedAt + 3_600_000)
  })
})

describe('after a crash', () => {
  it('a running sandbox keeps running, with its route and its timeout', async () => {
    await using before = await openFixture()
    const { sandboxID } = await before.service.create(before.team, request({ timeoutMs: 5000 }))
    await using fixture = await before.again()
    await fixture.reconciler.run()
    assert.ok(fixture.routes.get(sandboxID))
    fixture.clock.advance(5000)
    await until(async () => (await fixture.stores.sandboxes.find(sandboxID))?.state === 'ended')
  })

  it('a half-made sandbox is undone, and its idempotency key is free again', async () => {
    await using before = await openFixture()
    const { opened } = gate()
    const started = gate()
    before.driver.beforeStarted = async () => {
      started.open()
      await opened
    }
    const claim = { key: 'k', requestHash: 'h' }
    before.service.create(before.team, request(), claim).catch(() => {})
    await started.opened
    await using fixture = await before.again()
    assert.equal((await fixture.driver.list()).length, 1)
    await fixture.reconciler.run()
    assert.deepEqual(await fixture.driver.list(), [])
    assert.deepEqual(await fixture.stores.sandboxes.listUnended(), [])
    assert.equal((await fixture.service.create(fixture.team, request(), claim)).state, 'running')
  })

  it('a kill that was cut off is finished', async () => {
    await using before = await openFixture()
    const { sandboxID, runID } = await before.service.create(before.team, request())
    await before.stores.sandboxes.transition({ sandboxID, runID, from: ['running'] }, 'killing')
    await using fixture = await before.again()
    await fixture.reconciler.run()
    assert.deepEqual(await fixture.driver.list(), [])
    assert.equal((await fixture.stores.sandboxes.find(sandboxID))?.state, 'ended')
  })

  it('a row whose sandbox is gone ends as lost', async () => {
    await using before = await openFixture()
    const lost = await before.service.create(before.team, request())
    before.driver.loseEverything()
    await using fixture = await before.again()
    await fixture.reconciler.run()
    assert.equal((await fixture.stores.sandboxes.find(lost.sandboxID))?.endReason, 'lost')
  })

  it('the reconciler leaves creates and kills of this process alone', async () => {
    await using fixture = await openFixture()
    const { service, team, reconciler } = fixture
    const { creating, started, open } = startingCreate(fixture)
    await started.opened
    await reconciler.run()
    open()
    const { sandboxID } = await creating
    await reconciler.run()
    assert.equal((await service.get(team, sandboxID)).state, 'running')
  })
})

describe('the log of a sandbox', () => {
  it('has its creation and the reason of its end', async () => {
    await using fixture = await openFixture()
    const { service, team, events, clock, stores } = fixture
    const killed = await service.create(team, request())
    await service.kill(team, killed.sandboxID)
    const expired = await service.create(team, request({ timeoutMs: 1000 }))
    clock.advance(1000)
    await until(async () => (await stores.sandboxes.find(expired.sandboxID))?.state === 'ended')
    await until(async () => events.length === 4)
    assert.deepEqual(events, [
      `${killed.sandboxID} Sandbox created from template base for 60 s`,
      `${killed.sandboxID} Sandbox ended: killed`,
      `${expired.sandboxID} Sandbox created from template base for 1 s`,
      `${expired.sandboxID} Sandbox ended: its timeout was over`,
    ])
  })

  it('has no entry for a sandbox that could not be created', async () => {
    await using fixture = await openFixture()
    fixture.agent.fail = new Error('no answer')
    await assert.rejects(fixture.service.create(fixture.team, request()))
    assert.deepEqual(fixture.events, [])
  })
})
