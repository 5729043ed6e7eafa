/** Whose templates are whose, how they are listed, tagged and deleted, and what is rejected at each route. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { Sandbox, Template } from 'e2b'
import { type Build, buildsOf, type SecondTeam, sayIn, secondTeam } from '../support/building.ts'
import { eventually } from '../support/eventually.ts'
import { type ApiOptions, anyIsolation, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

type Shown = Build & {
  names: string[]
  aliases: string[]
  public: boolean
  buildCount: number
  buildStatus: string
  spawnCount: number
  cpuCount: number
}

const noUUID = 'not-a-uuid'
const unknownBuild = '00000000-0000-4000-8000-000000000000'
const hash = createHash('sha256').update('files').digest('hex')

describe('names of templates', () => {
  let warren: Warren
  let others: SecondTeam
  before(async () => {
    warren = await startWarren(anyIsolation, { settings: { ...noWarmPool, WARREN_MAX_UPLOAD_MB: '1' } })
    others = await secondTeam(warren)
  })
  after(() => warren?.stop())

  const asOther = (path: string, options: ApiOptions = {}) =>
    warren.api(path, { key: others.client.apiKey, ...options })
  const read = async <T>(path: string): Promise<T> => (await (await warren.api(path)).json()) as T
  const request = async (name: string, more: object = {}) => {
    const answer = await warren.api('/v3/templates', { body: { name, ...more } })
    assert.equal(answer.status, 202, await answer.clone().text())
    return (await answer.json()) as Shown
  }
  const start = (build: Build, body: object) =>
    warren.api(`/v2/templates/${build.templateID}/builds/${build.buildID}`, { body })

  it('belong to the team: two teams may build the same name at the same time without a conflict', async () => {
    const steps = (who: string) =>
      Template().fromBaseImage().runCmd('echo shared > s').runCmd(`echo ${who} > who`)
    const [mine, theirs] = await Promise.all([
      Template.build(steps('mine'), 'twin', warren.client),
      Template.build(steps('theirs'), 'twin', others.client),
    ])
    assert.notEqual(mine.templateId, theirs.templateId)
    assert.equal(await sayIn(warren, 'twin', 'cat who'), 'mine\n')
    assert.equal(await sayIn({ ...warren, client: others.client }, 'twin', 'cat who'), 'theirs\n')
    for (const path of [`/templates/${mine.templateId}`, `/templates/${mine.templateId}/tags`]) {
      assert.equal((await asOther(path)).status, 403)
    }
    const status = `/templates/${mine.templateId}/builds/${mine.buildId}/status`
    assert.equal((await asOther(status)).status, 403)
    assert.equal((await asOther(`/templates/${mine.templateId}/files/${hash}`)).status, 403)
    await assert.rejects(Sandbox.create(mine.templateId, others.client), /not found|access/)
    const foreign = await asOther(`/templates/${mine.templateId}`, { method: 'DELETE' })
    assert.ok([403, 404].includes(foreign.status), String(foreign.status))
    const named = await asOther('/v3/templates', { body: { name: 'default/twin' } })
    assert.equal(named.status, 400)
    assert.deepEqual(
      (await read<Shown[]>('/templates')).map(({ names }) => names),
      [['default/twin']],
    )
  })

  it('may be used by every team once they are public, and deleted by their own team only', async () => {
    const { templateId } = await Template.build(
      Template().fromBaseImage().runCmd('echo open > open'),
      'open-to-all',
      warren.client,
    )
    assert.equal(await Template.exists('open-to-all', others.client), false)
    const patched = await warren.api(`/templates/${templateId}`, {
      method: 'PATCH',
      body: { public: true },
    })
    assert.deepEqual([patched.status, await patched.text()], [200, ''])
    assert.equal(await Template.exists('open-to-all', others.client), true)
    const theirs = { ...warren, client: others.client }
    assert.equal(await sayIn(theirs, 'open-to-all', 'cat open'), 'open\n')
    assert.equal((await asOther(`/templates/${templateId}`, { method: 'DELETE' })).status, 403)
    assert.equal((await asOther('/templates/open-to-all', { method: 'DELETE' })).status, 403)
    const closed = await warren.api(`/v2/templates/${templateId}`, {
      method: 'PATCH',
      body: { public: false },
    })
    assert.deepEqual(await closed.json(), { names: ['open-to-all', 'default/open-to-all'] })
    await assert.rejects(Sandbox.create('open-to-all', others.client), /not found|access/)
    assert.equal((await warren.api('/templates/open-to-all', { method: 'DELETE' })).status, 204)
  })

  it('are listed with their newest builds, page by page', async () => {
    for (const name of ['listed-a', 'listed-b']) {
      await Template.build(Template().fromBaseImage().runCmd('echo x > x'), name, {
        ...warren.client,
        cpuCount: 1,
      })
    }
    const again = await Template.build(
      Template().fromBaseImage().runCmd('echo y > y'),
      'listed-b',
      warren.client,
    )
    const old = await read<Shown[]>('/templates')
    assert.deepEqual(
      old.map(({ aliases }) => aliases[0]),
      ['twin', 'listed-a', 'listed-b'],
    )
    const found: string[] = []
    let token: string | null = ''
    do {
      const page = await warren.api(
        `/v2/templates?limit=1${token && `&nextToken=${encodeURIComponent(token)}`}`,
      )
      found.push(...((await page.json()) as Shown[]).map(({ names }) => names[0]!))
      token = page.headers.get('x-next-token')
    } while (token)
    assert.deepEqual(found, ['default/listed-b', 'default/listed-a', 'default/twin'])
    const { buildID, buildCount, buildStatus, cpuCount } = old.at(-1)!
    assert.deepEqual([buildID, buildCount, buildStatus, cpuCount], [again.buildId, 2, 'ready', 2])
    const first = await warren.api(`/templates/${again.templateId}?limit=1`)
    const rest = first.headers.get('x-next-token')
    const second = await warren.api(`/templates/${again.templateId}?nextToken=${encodeURIComponent(rest!)}`)
    const [newest] = ((await first.json()) as { builds: Build[] }).builds
    const older = ((await second.json()) as { builds: Build[] }).builds
    assert.deepEqual([newest?.buildID, older.length], [again.buildId, 1])
    assert.equal(await sayIn(warren, `listed-b:${older[0]!.buildID}`, 'ls'), 'x\n')
    assert.equal(await sayIn(warren, 'listed-b', 'ls'), 'y\n')
    await eventually(async () =>
      assert.equal((await read<Shown>(`/templates/${again.templateId}`)).spawnCount, 2),
    )
  })

  it('keep their tag on the last good build', async () => {
    const good = Template().fromBaseImage().runCmd('echo good > good')
    const { buildId } = await Template.build(good, 'steady', warren.client)
    await assert.rejects(Template.build(Template().fromBaseImage().runCmd('false'), 'steady', warren.client))
    assert.equal(await sayIn(warren, 'steady', 'cat good'), 'good\n')
    const [failed, ready] = await buildsOf(warren, 'steady')
    assert.deepEqual([failed?.status, ready?.status, ready?.buildID], ['error', 'ready', buildId])
    await assert.rejects(
      Sandbox.create(`steady:${failed!.buildID}`, warren.client),
      /does not exist|not found/,
    )
  })

  it('cannot be deleted while a sandbox needs them', async () => {
    await Template.build(Template().fromBaseImage().runCmd('echo k > k'), 'needed', warren.client)
    const sandbox = await Sandbox.create('needed', { ...warren.client, timeoutMs: 3_600_000 })
    const remove = () => warren.api('/templates/needed:any', { method: 'DELETE' })
    const says = async (text: RegExp) => {
      const answer = await remove()
      assert.equal(answer.status, 400)
      assert.match(await answer.text(), text)
    }
    await says(/because there are running sandboxes using it/)
    await sandbox.pause()
    await says(/because there are paused sandboxes using it/)
    await sandbox.kill()
    assert.equal((await remove()).status, 204)
    assert.equal((await remove()).status, 404)
    assert.equal(await Template.exists('needed', warren.client), false)
    await assert.rejects(Sandbox.create('needed', warren.client), /not found/)
  })

  it('cancel a waiting build if a newer one is requested', async () => {
    const first = await request('replaced')
    const second = await request('replaced')
    assert.equal(second.templateID, first.templateID)
    const late = await start(first, { fromImage: 'e2bdev/base' })
    assert.equal(late.status, 400)
    const { status, reason } = await read<{ status: string; reason: { message: string } }>(
      `/templates/${first.templateID}/builds/${first.buildID}/status`,
    )
    assert.equal(status, 'error')
    assert.equal(reason.message, 'The build was canceled because it was superseded by a newer one.')
    const waiting = await read<Shown & { logEntries: [] }>(
      `/templates/${second.templateID}/builds/${second.buildID}/status`,
    )
    assert.deepEqual([waiting.status, waiting.logEntries], ['waiting', []])
  })

  it('reject invalid names, tags, sizes, steps and builds', async () => {
    const build = await request('refusals')
    const to = `/templates/${build.templateID}`
    const tags = '/templates/tags'
    const image = { fromImage: 'e2bdev/base' }
    const step = (type: string, more: object = {}) => ({
      ...image,
      steps: [{ type, args: ['x'], ...more }],
    })
    const cases: [string, ApiOptions, number, RegExp][] = [
      ['/v3/templates', { body: {} }, 400, /Name is required/],
      ['/v3/templates', { body: { name: ' ' } }, 400, /Name is required/],
      ['/v3/templates', { body: { name: 'a b' } }, 400, /Invalid name/],
      ['/v3/templates', { body: { name: 'a'.repeat(129) } }, 400, /Invalid name/],
      ['/v3/templates', { body: { name: 'a:' } }, 400, /Invalid name|Invalid tag/],
      ['/v3/templates', { body: { name: 'a', tags: ['no good'] } }, 400, /Invalid tag/],
      ['/v3/templates', { body: { name: 'a', tags: [unknownBuild] } }, 400, /Invalid tag/],
      ['/v3/templates', { body: { name: `a:${unknownBuild}` } }, 400, /Invalid (name|tag)/],
      ['/v3/templates', { body: { name: 'a', cpuCount: 0 } }, 400, /validation error: .*cpuCount/],
      ['/v3/templates', { body: { name: 'a', cpuCount: 3 } }, 400, /CPU count must be 1 or an even number/],
      ['/v3/templates', { body: { name: 'a', cpuCount: 1e6 } }, 400, /CPU count must be at most/],
      ['/v3/templates', { body: { name: 'a', cpuCount: '2x' } }, 400, /cpuCount/],
      ['/v3/templates', { body: { name: 'a', memoryMB: 127 } }, 400, /[Mm]emory/],
      ['/v3/templates', { body: { name: 'a', memoryMB: 129 } }, 400, /Memory must be divisible by 2/],
      ['/v3/templates', { body: { name: 'a', memoryMB: 1e8 } }, 400, /Memory can't be higher than/],
      ['/v3/templates', { body: { name: 'a', minFreeDiskMb: -1 } }, 400, /minFreeDiskMb/],
      ['/v2/templates', { body: {} }, 400, /alias/],
      [`/v2${to}/builds/${noUUID}`, { body: image }, 400, /Invalid build ID/],
      [`/v2${to}/builds/${unknownBuild}`, { body: image }, 400, /not found/],
      [`/v2/templates/unknown/builds/${build.buildID}`, { body: image }, 404, /not found/],
      [`/v2${to}/builds/${build.buildID}`, { body: {} }, 400, /fromImage/],
      [`/v2${to}/builds/${build.buildID}`, { body: { ...image, fromTemplate: 'base' } }, 400, /fromImage/],
      [`/v2${to}/builds/${build.buildID}`, { body: { fromTemplate: 'no-such' } }, 404, /no-such/],
      [`/v2${to}/builds/${build.buildID}`, { body: step('MAGIC') }, 400, /MAGIC/],
      [`/v2${to}/builds/${build.buildID}`, { body: step('RUN', { args: [] }) }, 400, /arguments/],
      [`/v2${to}/builds/${build.buildID}`, { body: step('RUN', { args: 'ls' }) }, 400, /args/],
      [`/v2${to}/builds/${build.buildID}`, { body: { ...image, steps: {} } }, 400, /steps/],
      [`/v2${to}/builds/${build.buildID}`, { rawBody: '{' }, 400, /./],
      [`${to}/builds/${noUUID}/status`, {}, 400, /Invalid build id/],
      [`${to}/builds/${unknownBuild}/status`, {}, 400, new RegExp(`Build '${unknownBuild}' not found`)],
      [`${to}/builds/${build.buildID}/status?limit=101`, {}, 400, /limit/],
      [`${to}/builds/${build.buildID}/status?logsOffset=-1`, {}, 400, /logsOffset/],
      [`${to}/builds/${build.buildID}/status?level=loud`, {}, 400, /level/],
      [`${to}/builds/${noUUID}/logs`, {}, 400, /Invalid build id/],
      [`${to}/builds/${build.buildID}/logs?direction=up`, {}, 400, /direction/],
      [`${to}/files/${hash.toUpperCase()}`, {}, 400, /Invalid files hash/],
      [`${to}/files/${hash.slice(1)}`, {}, 400, /Invalid files hash/],
      [`/templates/unknown/files/${hash}`, {}, 404, /not found/],
      ['/templates/unknown', {}, 404, /Template unknown not found/],
      ['/templates/unknown', { method: 'DELETE' }, 404, /not found/],
      ['/templates/unknown/tags', {}, 404, /not found/],
      ['/v2/templates/unknown', { method: 'PATCH', body: { public: true } }, 404, /not found/],
      [`/v2${to}`, { method: 'PATCH', body: { public: 'maybe' } }, 400, /public/],
      ['/v2/templates?nextToken=%00', {}, 400, /./],
      ['/v2/templates?limit=0', {}, 400, /limit/],
      ['/templates?teamID=someone', {}, 400, /team/],
      ['/templates/aliases/unknown', {}, 404, /not found/],
      ['/templates/aliases/a%20b', {}, 400, /Invalid/],
      ['/templates/aliases/refusals:v9', {}, 404, /tag 'v9' does not exist for template 'refusals'/],
      [tags, { body: { target: 'refusals', tags: [] } }, 400, /At least one tag is required/],
      [tags, { body: { target: 'refusals', tags: [':x'] } }, 400, /Invalid tag/],
      [tags, { body: { target: 'refusals:', tags: ['x'] } }, 400, /Invalid tag|not a valid tag/],
      [tags, { body: { target: 'unknown', tags: ['x'] } }, 404, /not found/],
      [tags, { method: 'DELETE', body: { name: 'refusals', tags: [] } }, 400, /At least one tag/],
      [tags, { method: 'DELETE', body: { name: 'refusals:x', tags: ['x'] } }, 400, /without a tag/],
      [tags, { method: 'DELETE', body: { name: 'refusals', tags: ['default'] } }, 400, /default/],
      [tags, { method: 'DELETE', body: { name: 'unknown', tags: ['x'] } }, 404, /not found/],
    ]
    for (const [path, options, status, text] of cases) {
      const answer = await warren.api(path, options)
      const said = await answer.text()
      const what = `${options.method ?? ''} ${path} ${JSON.stringify(options.body)}: ${answer.status} ${said}`
      assert.equal(answer.status, status, what)
      assert.match(said, text, what)
      assert.equal(JSON.parse(said).code, status, what)
      const keyless = await warren.api(path, { ...options, key: null })
      assert.equal(keyless.status, 401, what)
    }
    const missing = { method: 'DELETE', body: { name: 'refusals', tags: ['never-there'] } }
    assert.equal((await warren.api(tags, missing)).status, 204)
    const begun = await start(build, { ...step('RUN', { args: ['true'], forceUpload: null, gzip: true }) })
    assert.equal(begun.status, 202, await begun.clone().text())
    assert.deepEqual([begun.headers.get('content-length'), await begun.text()], ['0', ''])
    const twice = await start(build, image)
    assert.equal(twice.status, 400)
    assert.match(await twice.text(), /build is not in waiting state/)
  })

  it('return upload links that are valid for one team, one hash and a limited time', async () => {
    const { templateID, ...build } = await request('uploads')
    const { present, url } = await read<{ present: boolean; url: string }>(
      `/templates/${templateID}/files/${hash}`,
    )
    assert.equal(present, false)
    const empty = new Uint8Array(1024)
    const put = (to: string, body: string | Uint8Array = empty) => fetch(to, { method: 'PUT', body })
    const changed = (change: (link: URL) => void) => {
      const link = new URL(url)
      change(link)
      return link.href
    }
    const otherHash = 'a'.repeat(64)
    const wrong = [
      changed((link) => link.searchParams.set('signature', 'x')),
      changed((link) => link.searchParams.set('expires', String(Date.now() + 1e9))),
      changed((link) => link.searchParams.set('expires', '1')),
      changed((link) => {
        link.pathname = link.pathname.replace(hash, otherHash)
      }),
      changed((link) => {
        link.pathname = link.pathname.replace(/build-files\/[^/]+/, `build-files/${others.teamID}`)
      }),
    ]
    for (const link of wrong) assert.equal((await put(link)).status, 403, link)
    assert.equal((await put(changed((link) => link.searchParams.delete('signature')))).status, 400)
    const missing = { type: 'COPY', args: ['x', 'y'], filesHash: hash }
    const begun = await start({ templateID, ...build }, { fromImage: 'e2bdev/base', steps: [missing] })
    assert.equal(begun.status, 202)
    await eventually(async () => {
      const path = `/templates/${templateID}/builds/${build.buildID}/status`
      const { status, reason } = await read<{ status: string; reason: { message: string; step: string } }>(
        path,
      )
      assert.equal(status, 'error')
      assert.match(reason.message, /were not uploaded/)
      assert.equal(reason.step, '1')
    })
    const large = await put(url, new Uint8Array(2 * 1024 * 1024))
    assert.equal(large.status, 413)
    assert.match(await large.text(), /1 MiB/)
    const tooLate = await read<{ present: boolean }>(`/templates/${templateID}/files/${hash}`)
    assert.equal(tooLate.present, false)
    const unreadable = await put(url, 'this is no archive')
    assert.equal(unreadable.status, 400)
    assert.match(await unreadable.text(), /must come as a tar archive/)
    assert.equal((await put(url)).status, 200)
    const later = await read<{ present: boolean }>(`/templates/${templateID}/files/${hash}`)
    assert.equal(later.present, true)
    const theirs = await asOther('/v3/templates', { body: { name: 'uploads' } })
    const { templateID: other } = (await theirs.json()) as Build
    const asked = (await (await asOther(`/templates/${other}/files/${hash}`)).json()) as {
      present: boolean
    }
    assert.equal(asked.present, false)
  })
})
