import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { until } from '../../test/support/domain.ts'
import { another, requested } from '../../test/support/template-calls.ts'

const dockerfile = 'FROM debian:12\nENV A=1\nRUN echo made\nCMD ["sleep", "1"]\n'

describe('builds of the first clients', () => {
  it('are requested with a Dockerfile and started without further data', async () => {
    await using warren = await openApi()
    const body = { dockerfile, alias: 'Old', startCmd: 'serve', readyCmd: 'ask', cpuCount: 4, memoryMB: 512 }
    const answer = await warren.ask('POST', '/templates', { body })
    assert.equal(answer.status, 202, answer.body)
    const { templateID, buildID, aliases, cpuCount, memoryMB } = answer.json()
    assert.deepEqual([aliases, cpuCount, memoryMB], [['old'], 4, 512])
    const path = `/templates/${templateID}/builds/${buildID}`
    const status = async () => (await warren.ask('GET', `${path}/status`)).json().status
    assert.equal(await status(), 'waiting')
    const started = await warren.ask('POST', path)
    assert.deepEqual([started.status, started.body], [202, ''])
    await until(async () => (await status()) === 'ready')
    const [job] = warren.jobs
    assert.deepEqual(job!.source, { image: 'debian:12' })
    assert.deepEqual(
      job!.steps.map(({ type, args }) => [type, ...args]),
      [
        ['USER', 'root'],
        ['WORKDIR', '/'],
        ['ENV', 'A', '1'],
        ['RUN', 'echo made'],
        ['USER', 'user'],
        ['WORKDIR', '/home/user'],
      ],
    )
    assert.deepEqual([job!.startCmd, job!.readyCmd], ['serve', 'ask'])
    const again = await warren.ask('POST', path)
    assert.deepEqual([again.status, again.json().message], [400, 'build is not in waiting state'])
  })

  it('may have no name, and can be built again by id', async () => {
    await using warren = await openApi()
    const first = (await warren.ask('POST', '/templates', { body: { dockerfile } })).json()
    assert.deepEqual(first.aliases, [])
    const again = async (body: object, headers = {}) =>
      warren.ask('POST', `/templates/${first.templateID}`, { body: { dockerfile, ...body }, ...headers })
    const second = (await again({ memoryMB: 256 })).json()
    assert.equal(second.templateID, first.templateID)
    assert.notEqual(second.buildID, first.buildID)
    assert.deepEqual([second.memoryMB, second.buildCount], [256, 2])
    const renamed = await again({ alias: 'new-name' })
    assert.deepEqual([renamed.status, /another build keeps its names/.test(renamed.body)], [400, true])
    assert.equal((await again({}, await another(warren))).status, 403)
    assert.equal((await warren.ask('POST', '/templates/nothing', { body: { dockerfile } })).status, 404)
  })

  it('may be requested with an empty Dockerfile, and are then made of nothing', async () => {
    await using warren = await openApi()
    for (const empty of ['', ' \n']) {
      const body = { dockerfile: empty, cpuCount: 2, memoryMB: 1024 }
      const answer = await warren.ask('POST', '/templates', { body })
      assert.equal(answer.status, 202, answer.body)
      const { templateID, buildID } = answer.json()
      const started = await warren.ask('POST', `/templates/${templateID}/builds/${buildID}`)
      assert.deepEqual([started.status, /without a Dockerfile/.test(started.body)], [400, true])
    }
  })

  it('are rejected with the unsupported instruction, and nothing is created', async () => {
    await using warren = await openApi()
    const tenfold = Array.from({ length: 12 }, (_, i) => `ENV A${i + 1}=${`$A${i}`.repeat(10)}`)
    const cases: [body: object, says: RegExp][] = [
      [{}, /dockerfile/],
      [{ dockerfile: 'RUN true' }, /FROM must come first/],
      [{ dockerfile: 'FROM a\nRUN b\nCOPY c /d' }, /line 3: COPY and ADD need files.*warren template build/],
      [{ dockerfile: `FROM a\nENV A0=xxxxxxxxxx\n${tenfold.join('\n')}` }, /line 7: variables make the text/],
      [{ dockerfile, alias: 'a b' }, /^Invalid name/],
      [{ dockerfile, cpuCount: 3 }, /^CPU count must be 1 or an even number$/],
      [{ dockerfile, cpuCount: 0 }, /^validation error/],
      [{ dockerfile, memoryMB: 32 }, /^validation error/],
      [{ dockerfile, cpuCount: 1024 }, /^CPU count must be at most 8$/],
      [{ dockerfile, memoryMB: 1024 * 1024 }, /^Memory can't be higher than 8192 MiB$/],
      [{ dockerfile, memoryMB: 1001 }, /^Memory must be divisible by 2$/],
      [{ dockerfile, teamID: 'another' }, /is not the team of this key/],
      [{ dockerfile: `FROM a\n#${'x'.repeat(65_536)}` }, /dockerfile/],
    ]
    for (const [body, says] of cases) {
      const answer = await warren.ask('POST', '/templates', { body })
      assert.equal(answer.status, 400, JSON.stringify(body).slice(0, 100))
      assert.match(answer.json().message, says)
    }
    assert.deepEqual((await warren.ask('GET', '/templates')).json(), [])
    const { path } = await requested(warren, 'newer')
    const answer = await warren.ask('POST', path)
    assert.deepEqual([answer.status, /without a Dockerfile/.test(answer.body)], [400, true])
  })
})
