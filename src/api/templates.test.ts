import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { another, built, plainBuild, requested } from '../../test/support/template-calls.ts'
import { envdVersion } from '../contract/constants.ts'

const nil = '00000000-0000-0000-0000-000000000000'

describe('requesting a template', () => {
  it('answers with its names and tags', async () => {
    await using warren = await openApi()
    const body = { name: 'alpha/Mine:v1', tags: ['v2'] }
    const answer = await warren.ask('POST', '/v3/templates', { body })
    assert.equal(answer.status, 202)
    const { templateID, buildID, ...rest } = answer.json()
    assert.match(templateID, /^[a-z0-9]{20}$/)
    assert.match(buildID, /^[0-9a-f-]{36}$/)
    const named = { names: ['alpha/mine'], aliases: ['mine'], public: false }
    assert.deepEqual(rest, { ...named, tags: ['v1', 'v2'] })
    const again = (await warren.ask('POST', '/v3/templates', { body: { alias: 'mine' } })).json()
    assert.equal(again.templateID, templateID)
    assert.notEqual(again.buildID, buildID)
    assert.deepEqual(again.tags, ['default'])
  })

  it('uses the requested sizes, and defaults for the others', async () => {
    await using warren = await openApi()
    const sizesOf = async (name: string, more: object = {}) => {
      const { templateID } = await requested(warren, name, more)
      const [build] = (await warren.ask('GET', `/templates/${templateID}`)).json().builds
      return [build.cpuCount, build.memoryMB, build.diskSizeMB]
    }
    assert.deepEqual(await sizesOf('usual'), [2, 1024, 1024])
    const asked = { cpuCount: 1, memoryMB: 128, minFreeDiskMb: 512 }
    assert.deepEqual(await sizesOf('asked', asked), [1, 128, 1536])
  })

  it('rejects invalid names, tags and sizes, each with its reason', async () => {
    await using warren = await openApi()
    const refused: [object, RegExp][] = [
      [{}, /^Name is required$/],
      [{ name: ' ' }, /^Name is required$/],
      [{ name: 'a b' }, /^Invalid name: /],
      [{ name: 'a/b/c' }, /^Invalid name: /],
      [{ name: 'beta/a' }, /^Invalid name: 'beta' is not the namespace of your team/],
      [{ name: 'x'.repeat(129) }, /^Invalid name: at most 128/],
      [{ name: 'a', tags: ['b c'] }, /^Invalid tag: 'b c'/],
      [{ name: `a:${nil}` }, /^Invalid tag: /],
      [{ name: 'a', tags: [nil] }, /^Invalid tag: /],
      [{ name: 'a', cpuCount: 3 }, /^CPU count must be 1 or an even number$/],
      [{ name: 'a', cpuCount: 0 }, /^validation error: body\/cpuCount must be >= 1$/],
      [{ name: 'a', cpuCount: 10 }, /^CPU count must be at most 8$/],
      [{ name: 'a', memoryMB: 32 }, /^validation error: body\/memoryMB must be >= 128$/],
      [{ name: 'a', memoryMB: 129 }, /^Memory must be divisible by 2$/],
      [{ name: 'a', memoryMB: 8194 }, /^Memory can't be higher than 8192 MiB$/],
      [{ name: 'a', minFreeDiskMb: 1025 }, /maximum of 2048/],
      [{ name: 7 }, /name/],
      [{ name: 'a', tags: 'b' }, /tags/],
    ]
    for (const [body, says] of refused) {
      const answer = await warren.ask('POST', '/v3/templates', { body })
      assert.equal(answer.status, 400, JSON.stringify(body))
      assert.equal(answer.json().code, 400)
      assert.match(answer.json().message, says)
    }
    assert.deepEqual((await warren.ask('GET', '/templates')).json(), [])
  })

  it('is rejected with 429 while twenty builds wait', async () => {
    await using warren = await openApi()
    for (let number = 0; number < 20; number++) await requested(warren, `t${number}`)
    const answer = await warren.ask('POST', '/v3/templates', { body: { name: 'more' } })
    assert.equal(answer.status, 429)
    assert.match(answer.json().message, /20 builds/)
  })

  it('answers old clients with a template', async () => {
    await using warren = await openApi()
    const { clock } = warren.fixture
    const body = { alias: 'mine', cpuCount: 4, memoryMB: 256 }
    const answer = await warren.ask('POST', '/v2/templates', { body })
    assert.equal(answer.status, 202)
    const { templateID, buildID, ...rest } = answer.json()
    assert.notEqual(buildID, nil)
    assert.ok(templateID)
    const at = new Date(clock.now()).toISOString()
    assert.deepEqual(rest, {
      cpuCount: 4,
      memoryMB: 256,
      diskSizeMB: 1024,
      public: false,
      aliases: ['mine'],
      createdAt: at,
      updatedAt: at,
      createdBy: null,
      lastSpawnedAt: null,
      spawnCount: 0,
      buildCount: 1,
      envdVersion,
    })
    assert.equal((await warren.ask('POST', '/v2/templates', { body: {} })).status, 400)
  })
})

describe('starting a build', () => {
  it("passes on the client's steps, and ignores fields that only clients use", async () => {
    await using warren = await openApi()
    const hash = 'ab'.repeat(32)
    const { path, buildID } = await requested(warren, 'mine')
    const body = {
      fromImage: 'registry.test/a',
      startCmd: 'serve',
      readyCmd: '',
      force: true,
      fromImageRegistry: { type: 'aws', awsAccessKeyId: 'i', awsSecretAccessKey: 's', awsRegion: 'r' },
      steps: [
        { type: 'COPY', args: ['a', 'b', '', ''], filesHash: hash, forceUpload: true, gzip: false },
        { type: 'RUN', args: ['one\ntwo', 'root'], force: true },
        { type: 'ENV' },
      ],
    }
    const answer = await warren.ask('POST', `/v2${path}`, { body })
    assert.deepEqual([answer.status, answer.body], [202, ''])
    assert.equal(answer.headers['content-length'], '0')
    const [{ build, teamID, ...job }] = warren.jobs as [(typeof warren.jobs)[number]]
    assert.deepEqual([build.buildID, teamID], [buildID, warren.fixture.team.teamID])
    assert.deepEqual(job, {
      source: {
        image: 'registry.test/a',
        credentials: { type: 'aws', accessKeyID: 'i', secretAccessKey: 's', region: 'r' },
      },
      steps: [
        { type: 'COPY', args: ['a', 'b', '', ''], filesHash: hash, force: false },
        { type: 'RUN', args: ['one\ntwo', 'root'], filesHash: null, force: true },
        { type: 'ENV', args: [], filesHash: null, force: false },
      ],
      startCmd: 'serve',
      readyCmd: null,
      force: true,
    })
  })

  it('accepts the other two kinds of registry credentials, and base templates', async () => {
    await using warren = await openApi()
    const registry = { type: 'registry', username: 'u', password: 'p' }
    await built(warren, 'a', { ...plainBuild, fromImageRegistry: registry })
    await built(warren, 'b', { ...plainBuild, fromImageRegistry: { type: 'gcp', serviceAccountJson: '{}' } })
    await built(warren, 'c', { fromTemplate: 'base', fromImage: '' })
    const [a, b, c] = warren.jobs.map(({ source }) => source) as [object, object, object]
    assert.deepEqual(a, { image: 'debian:12', credentials: registry })
    assert.deepEqual(b, { image: 'debian:12', credentials: { type: 'gcp', serviceAccountJSON: '{}' } })
    assert.ok('build' in c)
  })

  it('rejects a build that is not supported, and the build still waits', async () => {
    await using warren = await openApi()
    const { path } = await requested(warren, 'mine')
    const step = (each: object) => ({ ...plainBuild, steps: [each] })
    const refused: [object, RegExp][] = [
      [{ steps: [] }, /either fromImage or fromTemplate/],
      [{ fromImage: 'a', fromTemplate: 'b' }, /either fromImage or fromTemplate/],
      [step({ type: 'EXPOSE', args: ['80'] }), /Step 1 has the unknown type 'EXPOSE'/],
      [step({ type: 'RUN' }), /Step 1 \(RUN\) needs arguments/],
      [step({ type: 'RUN', args: ['a\0b'] }), /steps/],
      [step({ args: ['a'] }), /type/],
      [{ ...plainBuild, fromImageRegistry: { type: 'other' } }, /fromImageRegistry/],
      [{ ...plainBuild, force: 'perhaps' }, /force/],
    ]
    for (const [body, says] of refused) {
      const answer = await warren.ask('POST', `/v2${path}`, { body })
      assert.equal(answer.status, 400, JSON.stringify(body))
      assert.match(answer.json().message, says)
    }
    const missing = await warren.ask('POST', `/v2${path}`, { body: { fromTemplate: 'nowhere' } })
    assert.equal(missing.status, 404)
    assert.equal((await warren.ask('GET', `${path}/status`)).json().status, 'waiting')
    assert.equal((await warren.ask('POST', `/v2${path}`, { body: plainBuild })).status, 202)
    const again = await warren.ask('POST', `/v2${path}`, { body: plainBuild })
    assert.deepEqual([again.status, again.json().message], [400, 'build is not in waiting state'])
  })

  it('finds builds of its own team only', async () => {
    await using warren = await openApi()
    const { path, templateID, buildID } = await requested(warren, 'mine')
    const other = await another(warren)
    const tries: [string, number, RegExp][] = [
      [`/templates/${templateID}/builds/x`, 400, /^Invalid build ID: 'x'$/],
      [`/templates/${templateID}/builds/${nil}`, 400, /^Build '0{8}.*' not found$/],
      [`/templates/nothing/builds/${buildID}`, 404, /^Template nothing not found$/],
    ]
    for (const [where, status, says] of tries) {
      const answer = await warren.ask('POST', `/v2${where}`, { body: plainBuild })
      assert.equal(answer.status, status)
      assert.match(answer.json().message, says)
    }
    assert.equal((await warren.ask('POST', `/v2${path}`, { body: plainBuild, ...other })).status, 403)
    for (const tail of ['status', 'logs']) {
      assert.equal((await warren.ask('GET', `${path}/${tail}`, other)).status, 403)
      const unknown = await warren.ask('GET', `/templates/${templateID}/builds/${nil}/${tail}`)
      assert.deepEqual([unknown.status, unknown.json().message], [400, `Build '${nil}' not found`])
      const bad = await warren.ask('GET', `/templates/${templateID}/builds/x/${tail}`)
      assert.equal(bad.status, 400)
      assert.match(bad.json().message, /^Invalid build id/)
      const none = await warren.ask('GET', `/templates/nothing/builds/${buildID}/${tail}`)
      assert.equal(none.status, 404)
    }
    assert.equal(warren.jobs.length, 0)
  })
})

describe('the status of a build', () => {
  const failing = {
    ...plainBuild,
    steps: [
      { type: 'RUN', args: ['one'] },
      { type: 'RUN', args: ['fail'] },
    ],
  }

  it('has its log lines, from any line on', async () => {
    await using warren = await openApi()
    const { path, templateID, buildID } = await requested(warren, 'mine')
    const ids = { templateID, buildID }
    const waiting = await warren.ask('GET', `${path}/status`)
    assert.deepEqual(waiting.json(), { ...ids, status: 'waiting', logs: [], logEntries: [] })
    const at = warren.fixture.clock.now()
    const next = await built(warren, 'mine', { ...plainBuild, steps: [{ type: 'RUN', args: ['one'] }] })
    const { logs, logEntries, ...rest } = (await warren.ask('GET', `${next.path}/status`)).json()
    assert.deepEqual(rest, { templateID, buildID: next.buildID, status: 'ready' })
    const first = `Building template ${templateID}/${next.buildID}`
    assert.deepEqual(logs, [`${first}\n`, 'RUN one\n', 'Build finished, took 0.0s\n'])
    const time = (more: number) => new Date(at + more).toISOString()
    assert.deepEqual(logEntries, [
      { timestamp: time(0), message: first, level: 'info' },
      { timestamp: time(1), message: 'RUN one', level: 'info', step: '1' },
      { timestamp: time(2), message: 'Build finished, took 0.0s', level: 'info' },
    ])
    const page = (await warren.ask('GET', `${next.path}/status?logsOffset=1&limit=1`)).json()
    assert.deepEqual(page.logs, ['RUN one\n'])
    assert.deepEqual((await warren.ask('GET', `${next.path}/status?limit=0`)).json().logs, [])
    assert.deepEqual((await warren.ask('GET', `${next.path}/status?logsOffset=9`)).json().logs, [])
  })

  it('has the reason and the step of a failure', async () => {
    await using warren = await openApi()
    const { path } = await built(warren, 'mine', failing)
    const answer = (await warren.ask('GET', `${path}/status?level=error`)).json()
    assert.equal(answer.status, 'error')
    const message = "failed to run command 'fail': exit status 1"
    const { logEntries, ...reason } = answer.reason
    assert.deepEqual(reason, { message, step: '2' })
    assert.deepEqual(
      logEntries.map((line: { message: string }) => line.message),
      ['RUN fail', `Build failed: ${message}`],
    )
    assert.deepEqual(answer.logs, [`Build failed: ${message}\n`])
    const old = await requested(warren, 'other')
    await requested(warren, 'other')
    const superseded = (await warren.ask('GET', `${old.path}/status`)).json()
    assert.deepEqual(superseded.reason, {
      message: 'The build was canceled because it was superseded by a newer one.',
      logEntries: [],
    })
  })

  it('has logs that can be read by time in both directions', async () => {
    await using warren = await openApi()
    const from = warren.fixture.clock.now()
    const { path } = await built(warren, 'mine', failing)
    const read = async (query: string) =>
      (await warren.ask('GET', `${path}/logs${query}`))
        .json()
        .logs.map(({ message }: { message: string }) => message.slice(0, 8))
    const all = ['Building', 'RUN one', 'RUN fail', 'Build fa']
    assert.deepEqual(await read(''), all)
    assert.deepEqual(await read(`?cursor=${from + 1}&limit=2&source=persistent`), all.slice(1, 3))
    assert.deepEqual(await read('?direction=backward&limit=2'), all.slice(2).reverse())
    assert.deepEqual(await read(`?direction=backward&cursor=${from + 1}`), all.slice(0, 1))
    assert.deepEqual(await read('?level=warn'), all.slice(3))
  })

  it('is rejected for invalid parameters', async () => {
    await using warren = await openApi()
    const { path } = await requested(warren, 'mine')
    const bad = ['status?limit=101', 'status?limit=-1', 'status?logsOffset=-1', 'status?level=loud']
    const more = ['logs?limit=101', 'logs?cursor=-1', 'logs?direction=up', 'logs?source=elsewhere']
    for (const tail of [...bad, ...more]) {
      assert.equal((await warren.ask('GET', `${path}/${tail}`)).status, 400, tail)
    }
  })
})
