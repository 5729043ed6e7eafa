import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openFixture, request, until } from '../../../test/support/domain.ts'
import { type ErrorCode, isAppError } from '../../lib/app-error.ts'

const two = { model: 'M', total: 2, free: 2, mostPerSandbox: 2 }
const asking = (count: string) => request({ metadata: { 'warren.gpus': count } })
const pauseOptions = { memory: true, requireHealthyAgent: false }
const fails = (code: string, words: RegExp) => (error: unknown) =>
  isAppError(error, code as ErrorCode) && words.test(error.message)
type Fixture = Awaited<ReturnType<typeof openFixture>>

async function specOf({ driver }: Fixture, sandboxID: string) {
  return driver.world.sandboxes.get(sandboxID)!.spec
}

describe('a sandbox with GPUs', () => {
  it('gets the number in its metadata, and keeps it over a pause and a fork', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    driver.gpus = two
    const sandbox = await service.create(team, asking('2'))
    assert.equal(sandbox.gpuCount, 2)
    assert.equal((await specOf(fixture, sandbox.sandboxID)).gpuCount, 2)
    const [fork] = await service.fork(team, sandbox.sandboxID, { timeoutMs: 60_000, count: 1 })
    assert.ok(fork && 'sandbox' in fork)
    assert.equal((await specOf(fixture, fork.sandbox.sandboxID)).gpuCount, 2)
    await service.pause(team, sandbox.sandboxID, pauseOptions)
    await service.resume(team, sandbox.sandboxID, { timeoutMs: 60_000, memory: true })
    assert.equal((await specOf(fixture, sandbox.sandboxID)).gpuCount, 2)
  })

  it('gets the number of its template, unless its metadata has another', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, stores } = fixture
    driver.gpus = two
    const build = (await stores.templates.findReadyBuild('basetemplate', 'default'))!
    await stores.templates.transitionBuild(build.buildID, ['ready'], 'ready', { gpuCount: 1, updatedAt: 1 })
    assert.equal((await service.create(team, request())).gpuCount, 1)
    assert.equal((await service.create(team, asking('0'))).gpuCount, undefined)
  })

  it('gets none of its template where its variables say so as to the runtime of the vendor', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, stores } = fixture
    driver.gpus = two
    const build = (await stores.templates.findReadyBuild('basetemplate', 'default'))!
    await stores.templates.transitionBuild(build.buildID, ['ready'], 'ready', { gpuCount: 1, updatedAt: 1 })
    const countWith = async (value: string, metadata = {}) => {
      const envVars = { NVIDIA_VISIBLE_DEVICES: value }
      const sandbox = await service.create(team, request({ metadata, envVars }))
      await service.kill(team, sandbox.sandboxID)
      return sandbox.gpuCount
    }
    assert.deepEqual([await countWith('none'), await countWith('void')], [undefined, undefined])
    assert.equal(await countWith('void', { 'warren.gpus': '1' }), 1)
    assert.equal(await countWith('all'), 1)
  })

  it('is rejected if no sandbox can ever have as many GPUs', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    await assert.rejects(service.create(team, asking('1')), fails('invalid_argument', /WARREN_GPUS/))
    driver.gpus = two
    await assert.rejects(
      service.create(team, asking('3')),
      fails('invalid_argument', /asks for 3 GPUs.*have 2/),
    )
    for (const text of ['many', '-1', '1.5', '']) {
      await assert.rejects(service.create(team, asking(text)), fails('invalid_argument', /from 0 to 16/))
    }
    assert.deepEqual(await driver.list(), [])
  })

  it('counts against the limit of its team while it runs', async () => {
    await using fixture = await openFixture()
    const { service, driver } = fixture
    driver.gpus = { ...two, total: 8, free: 8 }
    const team = { ...fixture.team, limits: { ...fixture.team.limits, maxGPUs: 2 } }
    const first = await service.create(team, asking('2'))
    await assert.rejects(service.create(team, asking('1')), fails('limit_reached', /maximum of 2 GPUs/))
    await service.create(team, request())
    await service.pause(team, first.sandboxID, pauseOptions)
    await service.create(team, asking('2'))
    const resumed = service.resume(team, first.sandboxID, { timeoutMs: 60_000, memory: true })
    await assert.rejects(resumed, fails('limit_reached', /maximum of 2 GPUs/))
  })

  it('waits for a free GPU, and is rejected with a time to retry if none becomes free', async () => {
    await using fixture = await openFixture()
    const { service, team, driver, clock } = fixture
    driver.gpus = { ...two, free: 0 }
    const late = service.create(team, asking('1'))
    const never = assert.rejects(late, fails('unavailable', /All 2 GPUs of this server are in use/))
    let isOver = false
    void late.catch(() => {}).finally(() => (isOver = true))
    await until(async () => {
      clock.advance(1000)
      return isOver
    })
    await never
    driver.gpus = two
    assert.equal((await service.create(team, asking('1'))).state, 'running')
  })

  it('never comes from the warm pool', async () => {
    await using fixture = await openFixture({ warm: 1 })
    const { service, team, driver, stores, clock, warm } = fixture
    driver.gpus = two
    const build = (await stores.templates.findReadyBuild('basetemplate', 'default'))!
    await stores.templates.transitionBuild(build.buildID, ['ready'], 'ready', { gpuCount: 1, updatedAt: 1 })
    await service.create(team, request())
    for (let round = 0; round < 50; round++) {
      clock.advance(1000)
      await new Promise((resolve) => setImmediate(resolve))
    }
    assert.deepEqual(warm.count(), { ready: 0, booting: 0 })
  })
})
