/** The dashboard in Chromium, against real sandboxes: what a person does there, and what nobody can do to them by it. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { after, before, describe, it } from 'node:test'
import type { Browser, BrowserContext, Page, Route } from 'playwright-core'
import type { ForgottenNode, Node } from '../../src/contract/rest/node.ts'
import type { PruneReport } from '../../src/contract/rest/prune.ts'
import type { QuarantineEntry, RecoveredSandbox } from '../../src/contract/rest/quarantine.ts'
import type { ListedSandbox, SandboxDetail } from '../../src/contract/rest/sandbox.ts'
import type { ApiKey } from '../../src/contract/rest/team.ts'
import { logIn, openBrowser } from '../dashboard/browser.ts'
import { hostile, makeSandboxes, makeThings, type Scene } from '../dashboard/scene.ts'
import { eventually } from '../support/eventually.ts'
import { anyIsolation, joinWarren, type Warren } from '../support/warren.ts'

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const withinMs = 30_000
type AxeReport = { violations: { id: string; impact: string; nodes: { html: string }[] }[] }

const crowd = 5000
const aPage = 500
const mostFirstBytes = 300 * 1024

describe('the dashboard', { timeout: 300_000 }, () => {
  let warren: Warren
  let scene: Scene
  let things: Awaited<ReturnType<typeof makeThings>>
  let browser: Browser
  let context: BrowserContext
  let page: Page
  /** What the browser refused to do or to run, and every request to another host. */
  const problems: string[] = []

  before(async () => {
    warren = await joinWarren(anyIsolation)
    process.env.E2B_VOLUME_API_URL = warren.url
    scene = await makeSandboxes(warren)
    things = await makeThings(warren)
    browser = await openBrowser()
    ;({ context, page } = await openPage())
    await logIn(page, warren.url, warren.apiKey)
  })
  after(async () => {
    delete process.env.E2B_VOLUME_API_URL
    await browser?.close()
    await warren?.stop()
  })

  async function openPage() {
    const opened = await browser.newContext({ reducedMotion: 'reduce' })
    const fresh = await opened.newPage()
    fresh.setDefaultTimeout(withinMs)
    fresh.on('pageerror', (error) => problems.push(error.message))
    fresh.on('console', (message) => {
      if (message.type() === 'error' && !/status of [45]\d\d|ERR_CONNECTION_RESET/.test(message.text()))
        problems.push(message.text())
    })
    fresh.on('request', (request) => {
      if (!/^(blob|data):/.test(request.url()) && !request.url().startsWith(`${warren.url}/`))
        problems.push(request.url())
    })
    return { context: opened, page: fresh }
  }

  const open = async (path: string) => {
    await page.goto(`${warren.url}/dashboard/${path}`)
    await page.locator('main h1').waitFor()
  }
  const busy = () => `sandboxes/${scene.busy.sandboxId}`

  it('tells whoever comes without a valid key what is wrong', async () => {
    const { context: other, page: stranger } = await openPage()
    await stranger.goto(warren.url)
    await stranger.getByLabel('API key or admin token').fill(`e2b_${'0'.repeat(40)}`)
    await stranger.getByRole('button', { name: 'Log in' }).click()
    assert.match((await stranger.getByRole('alert').textContent()) ?? '', /key/i)
    await other.close()
  })

  it('lists sandboxes, and finds them by state and by metadata', async () => {
    await open('sandboxes')
    await page.getByRole('link', { name: scene.busy.sandboxId }).waitFor()
    const rows = () => page.locator('.row.item').count()
    await eventually(async () => assert.equal(await rows(), 2))
    await page.keyboard.press('/')
    await page.keyboard.type('user=42')
    await eventually(async () => assert.equal(await rows(), 1))
    await page.getByRole('button', { name: 'Paused' }).click()
    await page.getByText('Nothing matches').waitFor()
  })

  it('shows use, open ports and events of a sandbox', async () => {
    await open(busy())
    await page.getByRole('link', { name: '8000' }).waitFor()
    const href = await page.getByRole('link', { name: '8000' }).getAttribute('href')
    assert.match(href ?? '', new RegExp(`^http://8000-${scene.busy.sandboxId}\\.localhost:`))
    await page.locator('.u-over').first().waitFor()
    await page.getByText('Created').waitFor()
  })

  it('has a terminal in which commands run', async () => {
    await open(`${busy()}/terminal`)
    await page.getByText('connected', { exact: true }).waitFor()
    const colour = '\\e[38;2;1;2;3m'
    await page.keyboard.type(`echo $((6*7)) > /tmp/typed; printf '${colour}done-%d\\n' 2\n`)
    await eventually(
      async () => assert.equal((await scene.busy.files.read('/tmp/typed')).trim(), '42'),
      withinMs,
    )
    await page.locator('.xterm-rows').getByText('done-2').waitFor()
    const isShown = "(span) => span.textContent.includes('done-2')"
    const shown = `[...document.querySelectorAll('.xterm-rows span')].find(${isShown})`
    assert.equal(await page.evaluate(`getComputedStyle(${shown}).color`), 'rgb(1, 2, 3)')
  })

  it('edits, uploads and downloads files', async () => {
    await open(`${busy()}/files`)
    await page.getByRole('button', { name: 'notes.md', exact: false }).first().click()
    const editor = page.getByLabel('Content of notes.md')
    await editor.fill('changed in the dashboard')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('notes.md is saved.').waitFor()
    assert.equal(await scene.busy.files.read('/home/user/notes.md'), 'changed in the dashboard')
    const upload = { name: 'up.bin', mimeType: 'application/octet-stream', buffer: Buffer.from([0, 1, 255]) }
    await page.locator('input[type=file]').setInputFiles(upload)
    await page.getByText('up.bin is uploaded.').waitFor()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Download up.bin' }).click(),
    ])
    assert.deepEqual(readFileSync((await download.path())!), upload.buffer)
    const data = await page.evaluateHandle(`(() => {
      const data = new DataTransfer()
      data.items.add(new File(['let go'], 'dropped.txt'))
      return data
    })()`)
    await page.getByRole('region', { name: 'Files' }).dispatchEvent('drop', { dataTransfer: data })
    await page.getByText('dropped.txt is uploaded.').waitFor()
    assert.equal(await scene.busy.files.read('/home/user/dropped.txt'), 'let go')
  })

  it('makes folders, and renames and deletes files', async () => {
    const { files } = scene.busy
    await files.write('/home/user/first.txt', 'kept')
    await open(`${busy()}/files`)
    await page.getByRole('button', { name: 'New folder' }).click()
    await nameIt(page, 'drafts', 'Make it')
    await eventually(async () => assert.ok(await files.exists('/home/user/drafts')))
    await page.getByRole('button', { name: 'Rename first.txt' }).click()
    await nameIt(page, 'notes.md', 'Rename')
    await page.getByRole('dialog').getByText('There is a notes.md already.').waitFor()
    await nameIt(page, 'second.txt', 'Rename')
    await page.getByRole('button', { name: 'Delete second.txt' }).waitFor()
    assert.equal(await files.read('/home/user/second.txt'), 'kept')
    await page.getByRole('button', { name: 'Delete second.txt' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await eventually(async () => assert.ok(!(await files.exists('/home/user/second.txt'))))
  })

  async function nameIt(on: Page, name: string, action: string) {
    await on.getByRole('dialog').getByLabel('Name').fill(name)
    await on.getByRole('dialog').getByRole('button', { name: action }).click()
  }

  it('follows logs and searches them', async () => {
    await open(`${busy()}/logs`)
    await page.getByText('listening on 8000').waitFor()
    await scene.busy.commands.run('echo fresh-line')
    await page.locator('.log .message', { hasText: /^process fresh-line$/ }).waitFor()
    await page.getByLabel('Search the log').fill('oops')
    await eventually(async () => assert.ok((await page.locator('.log .entry').count()) < 4))
    // The overview has looked at its ports meanwhile.
    const path = `/v2/sandboxes/${scene.busy.sandboxId}/logs?search=%2Fproc%2Fnet`
    assert.deepEqual(((await (await warren.api(path)).json()) as { logs: object[] }).logs, [])
  })

  it('lists processes and changes the egress policy in place', async () => {
    await open(`${busy()}/processes`)
    await page.getByText('python3 /home/user/server.py').first().waitFor()
    await open(`${busy()}/network`)
    await page.getByLabel('Denied').fill('203.0.113.0/24')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The egress policy is changed.').waitFor()
    const detail = (await (await warren.api(`/sandboxes/${scene.busy.sandboxId}`)).json()) as SandboxDetail
    assert.deepEqual(detail.network?.denyOut, ['203.0.113.0/24'])
  })

  it('resumes, extends, snapshots and forks a sandbox, and kills many after asking once', async () => {
    const { sandboxId } = scene.paused
    const inDialog = (name: string) => page.getByRole('dialog').getByRole('button', { name }).click()
    await open(`sandboxes/${sandboxId}`)
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByRole('button', { name: 'Extend' }).click()
    await page.getByRole('dialog').getByLabel('Minutes from now').fill('600')
    await inDialog('Set')
    await page.getByText('ends in 9h').waitFor()
    await page.getByRole('button', { name: 'Snapshot' }).click()
    await inDialog('Make it')
    await page.getByText(/^Snapshot .* is kept/).waitFor()
    await page.getByRole('button', { name: 'Fork' }).click()
    await inDialog('Fork')
    await page.getByText('Made 1 copy.').waitFor()
    await open('sandboxes')
    await page.getByLabel('Search sandboxes').fill('user=7')
    await eventually(async () => assert.equal(await page.locator('.row.item').count(), 2))
    for (const box of await page.locator('.row.item input').all()) await box.check()
    await page.getByRole('toolbar').getByRole('button', { name: 'Kill' }).click()
    await inDialog('Kill')
    await page.getByText('Killed 2 sandboxes.').waitFor()
    assert.equal((await warren.api(`/sandboxes/${sandboxId}`)).status, 404)
  })

  it('starts one sandbox from a template, and tells why the template cannot be deleted then', async () => {
    const template = `templates/${things.templateID}`
    await open(template)
    await page.getByText('RUN sleep 1').first().waitFor()
    const breakOff = async (route: Route) => {
      await route.fetch()
      await route.abort('connectionreset')
    }
    await page.route(/\/v2\/sandboxes$/, breakOff, { times: 1 })
    await page.getByRole('button', { name: 'New sandbox' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    const running = (await (await warren.api('/v2/sandboxes')).json()) as ListedSandbox[]
    assert.equal(running.filter(({ templateID }) => templateID === things.templateID).length, 1)
    await open(template)
    await page.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByText('because there are running sandboxes using it').waitFor()
  })

  it('shows a key once, never again, and renames it', async () => {
    await open('keys')
    await page.getByRole('button', { name: 'New key' }).click()
    await nameIt(page, 'from the dashboard', 'Create')
    const shown = page.getByRole('dialog', { name: 'Your new key' })
    const key = (await shown.locator('code').textContent()) ?? ''
    assert.match(key, /^e2b_[0-9a-f]{40}$/)
    await shown.getByRole('button', { name: 'Close' }).click()
    await page.getByText('from the dashboard').waitFor()
    assert.ok(!(await page.content()).includes(key))
    await page.getByRole('button', { name: 'Rename from the dashboard' }).click()
    await nameIt(page, 'of the robot', 'Rename')
    await page.getByText('of the robot', { exact: true }).waitFor()
    const keys = (await (await warren.api('/api-keys')).json()) as ApiKey[]
    assert.ok(keys.some(({ name }) => name === 'of the robot'))
  })

  it('is quick to arrive: the first view is small, and all of it is kept by its name', async () => {
    const { context: other, page: fresh } = await openPage()
    const sizes: number[] = []
    const headers: Record<string, string>[] = []
    fresh.on('response', async (response) => {
      if (!response.url().includes('/dashboard')) return
      headers.push(response.headers())
      sizes.push(Number(response.headers()['content-length']))
    })
    await logIn(fresh, warren.url, warren.apiKey)
    const total = sizes.reduce((sum, size) => sum + size, 0)
    assert.ok(total > 20_000 && total < mostFirstBytes, `the first view has ${total} bytes`)
    const assets = headers.filter((one) => one['content-encoding'] !== undefined)
    assert.ok(assets.length >= 2)
    for (const one of assets) assert.match(one['cache-control'] ?? '', /immutable/)
    await other.close()
  })

  it('draws a few rows of five thousand sandboxes, and the last ones when they are scrolled to', async () => {
    const { context: other, page: crowded } = await openPage()
    const idOf = (at: number) => `i${String(at).padStart(20, '0')}`
    await crowded.route(/\/v2\/sandboxes\?/, (route) => {
      const token = Number(new URL(route.request().url()).searchParams.get('nextToken') ?? 0)
      const rows = Array.from({ length: aPage }, (_, at) => listed(idOf(token + at), token + at))
      const next = token + aPage < crowd ? { 'x-next-token': String(token + aPage) } : {}
      return route.fulfill({ json: rows, headers: next as Record<string, string> })
    })
    await crowded.route(/\/sandboxes\/.*metrics/, (route) => route.fulfill({ json: [] }))
    await logIn(crowded, warren.url, warren.apiKey)
    await crowded.getByText('5,000 running').waitFor()
    assert.ok((await crowded.locator('.row.item').count()) < 60)
    await crowded.evaluate("document.querySelector('.rows .body').scrollTo(0, 1e9)")
    await crowded.getByRole('link', { name: idOf(crowd - 1) }).waitFor()
    assert.ok((await crowded.locator('.row.item').count()) < 60)
    await other.close()
  })

  const listed = (sandboxID: string, at: number): ListedSandbox => ({
    ...{ sandboxID, templateID: 'base', clientID: '', cpuCount: 1, memoryMB: 512, diskSizeMB: 512 },
    ...{ state: 'running', envdVersion: '0', startedAt: new Date(2e12 - at * 1000).toISOString() },
    endAt: new Date(3e12).toISOString(),
  })

  it('can be read by a screen reader, in both themes', { timeout: 240_000 }, async () => {
    const { volumeID, webhookID, templateID } = things
    const views = [
      ...[
        'sandboxes',
        busy(),
        `${busy()}/logs`,
        `${busy()}/files`,
        `${busy()}/terminal`,
        `${busy()}/processes`,
      ],
      ...[`${busy()}/network`, `${busy()}/connect`, 'templates', `templates/${templateID}`, 'snapshots'],
      ...['volumes', `volumes/${volumeID}`, 'secrets', 'webhooks', `webhooks/${webhookID}`, 'keys', 'team'],
    ]
    await readAll(warren.apiKey, views)
    await readAll(warren.adminToken, ['machine', 'team'])
  })

  async function readAll(secret: string, views: readonly string[]) {
    // It makes style sheets to look at others, which the page's policy rejects.
    const reading = await browser.newContext({ reducedMotion: 'reduce', bypassCSP: true })
    const reader = await reading.newPage()
    await reader.addInitScript(axeSource)
    await logIn(reader, warren.url, secret)
    for (const [at, view] of views.entries()) {
      await reader.emulateMedia({ colorScheme: at % 2 === 0 ? 'dark' : 'light' })
      await reader.goto(`${warren.url}/dashboard/${view}`)
      await reader.locator('main h1').waitFor()
      await eventually(async () => assert.equal(await reader.locator('.waiting').count(), 0), withinMs)
      // What is around the view is the same in all of them.
      assert.deepEqual(await seriousFindings(reader, at === 0 ? 'html' : 'main'), [], view)
    }
    await reading.close()
  }

  async function seriousFindings(of: Page, within: string): Promise<string[]> {
    const { violations } = (await of.evaluate(
      `axe.run('${within}', { resultTypes: ['violations'] })`,
    )) as AxeReport
    return violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)
  }

  it('shows the operator the machine, with what the doctor finds, and all teams', async () => {
    const { context: other, page: operator } = await openPage()
    await logIn(operator, warren.url, warren.adminToken)
    await operator.keyboard.press('/')
    await operator.keyboard.type(scene.busy.sandboxId)
    await operator.getByRole('link', { name: scene.busy.sandboxId }).waitFor()
    await operator.getByRole('link', { name: 'Machine' }).click()
    await operator.getByText('Create, median').waitFor()
    await operator.getByText('namespaces').first().waitFor()
    await operator.getByRole('table').first().waitFor()
    await operator.getByRole('link', { name: 'Team', exact: true }).click()
    await operator.getByRole('button', { name: 'New team' }).waitFor()
    await other.close()
  })

  it('asks the server to undrain, to forget, to recover and to prune, and tells the operator why it refuses', async () => {
    const { context: other, page: operator } = await openPage()
    // Other tests use this server too: it looks like a drained one of two, and what would be pruned and recovered is made up.
    await operator.route(/\/nodes$/, async (route) => {
      const nodes = (await (await route.fetch()).json()) as Node[]
      const both = nodes.flatMap((node) => [
        { ...node, status: 'draining' },
        { ...node, id: 'a-node-of-nobody', status: 'unhealthy' },
      ])
      await route.fulfill({ json: both })
    })
    await operator.route(/\/admin\/quarantine$/, (route) => route.fulfill({ json: [unowned] }))
    const pruned: string[] = []
    await operator.route(/\/admin\/prune$/, (route) => {
      pruned.push(route.request().postData() ?? '')
      return route.fulfill({ json: prunable })
    })
    await logIn(operator, warren.url, warren.adminToken)
    await operator.getByRole('link', { name: 'Machine' }).click()
    await operator.getByRole('button', { name: 'Undrain' }).click()
    await operator.getByText('This Warren is on its own').waitFor()
    await operator.getByRole('button', { name: 'Forget' }).click()
    await operator.getByRole('dialog').getByRole('button', { name: 'Forget' }).click()
    await operator.getByRole('dialog').getByText("There is no node 'a-node-of-nobody'").waitFor()
    await operator.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
    await operator.getByRole('button', { name: 'Recover' }).click()
    await operator.getByText(`There is no snapshot '${unowned.snapshotName}'`).waitFor()
    await operator.getByRole('button', { name: `Delete ${unowned.snapshotName}` }).click()
    await operator.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await operator.getByRole('dialog').getByText('There is no snapshot').waitFor()
    await operator.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
    await operator.getByRole('button', { name: 'Prune' }).click()
    await operator.getByRole('dialog').getByText('3 cached build steps').waitFor()
    await operator.getByRole('dialog').getByRole('button', { name: 'Prune' }).click()
    await operator.getByText('2.0 GB are freed.').waitFor()
    assert.deepEqual(pruned, ['{"dryRun":true}', '{"dryRun":false}'])
    await other.close()
  })

  it('tells the operator that a machine is drained, back or forgotten, and whose sandbox was recovered', async () => {
    const { context: other, page: operator } = await openPage()
    const [node] = (await (await asOperator('/nodes')).json()) as [Node]
    let nodes: Node[] = [
      node,
      { ...node, id: 'second', status: 'ready' },
      { ...node, id: 'third', status: 'unhealthy' },
    ]
    let entries = [unowned]
    await operator.route(/\/nodes$/, (route) => route.fulfill({ json: nodes }))
    await operator.route(/\/nodes\/second$/, (route) => {
      const { status } = route.request().postDataJSON() as Pick<Node, 'status'>
      nodes = nodes.map((one) => (one.id === 'second' ? { ...one, status } : one))
      return route.fulfill({ status: 204 })
    })
    await operator.route(/\/admin\/nodes\/third$/, (route) => {
      nodes = nodes.filter(({ id }) => id !== 'third')
      return route.fulfill({ json: { sandboxes: 2, builds: 0, volumes: 1 } satisfies ForgottenNode })
    })
    await operator.route(/\/admin\/quarantine$/, (route) => route.fulfill({ json: entries }))
    await operator.route(/\/admin\/quarantine\/.*\/recover$/, (route) => {
      entries = []
      const recovered = { sandboxID: scene.busy.sandboxId, teamID: 'a-team' }
      return route.fulfill({ json: recovered satisfies RecoveredSandbox })
    })
    await logIn(operator, warren.url, warren.adminToken)
    await operator.getByRole('link', { name: 'Machine' }).click()
    await operator.getByRole('button', { name: 'Drain second', exact: true }).click()
    await operator.getByText('second gets no new sandboxes.').waitFor()
    await operator.getByRole('button', { name: 'Undrain second' }).click()
    await operator.getByText('second gets new sandboxes again.').waitFor()
    await operator.getByRole('button', { name: 'Forget third' }).click()
    await operator.getByRole('dialog').getByRole('button', { name: 'Forget' }).click()
    await operator.getByText('third is forgotten; lost with it: 2 sandboxes, 0 builds, 1 volume.').waitFor()
    await operator.getByRole('button', { name: 'Recover' }).click()
    await operator.getByText(`The sandbox ${scene.busy.sandboxId} of a-team is back, as paused.`).waitFor()
    await operator.getByText('Nothing is in quarantine').waitFor()
    assert.equal(await operator.getByRole('button', { name: 'Forget third' }).count(), 0)
    await other.close()
  })

  const asOperator = (path: string) =>
    warren.api(path, { key: null, headers: { 'X-Admin-Token': warren.adminToken } })

  const unowned: QuarantineEntry = {
    ...{ snapshotName: 'a-snapshot-of-nobody', sandboxID: null, reason: hostile },
    ...{ since: new Date(1e12).toISOString(), deletedAt: new Date(3e12).toISOString() },
  }
  const freed = { count: 0, bytes: 0 }
  const prunable: PruneReport = {
    ...{ dryRun: true, steps: { count: 3, bytes: 0 }, savedStates: { count: 1, bytes: 2 ** 31 } },
    ...{ layers: freed, files: freed, bytes: 2 ** 31 },
  }

  it('keeps the key where no other origin and no later visit finds it, and forgets it on request', async () => {
    await open('sandboxes')
    assert.deepEqual(await context.cookies(), [])
    const stored = (await page.evaluate('JSON.stringify(localStorage)')) as string
    assert.ok(!stored.includes(warren.apiKey))
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByLabel('API key or admin token').waitFor()
    assert.equal(await page.evaluate('sessionStorage.length'), 0)
  })

  it('shows hostile texts as texts, runs none of them, and asks nobody else for anything', async () => {
    const { headers } = await fetch(`${warren.url}/dashboard`)
    const policy = headers.get('content-security-policy') ?? ''
    assert.match(policy, /default-src 'none'/)
    assert.match(policy, /frame-ancestors 'none'/)
    assert.doesNotMatch(policy, /unsafe|\*/)
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
    await logIn(page, warren.url, warren.apiKey)
    await page.getByText(`note=${hostile}`).waitFor()
    assert.equal(await page.evaluate('window.owned'), undefined)
    assert.deepEqual(problems, [])
  })
})
