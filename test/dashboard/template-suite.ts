/** Templates that Warren knows, and those that a person makes in the browser. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Sandbox } from 'e2b'
import type { Page } from 'playwright-core'
import type { BuiltInTemplate } from '../../src/contract/rest/built-in.ts'
import { eventually } from '../support/eventually.ts'
import { logIn } from './browser.ts'
import type { DashboardFixture } from './fixture.ts'
import { hostile } from './scene.ts'

export function templateSuite(dashboard: DashboardFixture): void {
  const rowOf = (page: Page, name: string) =>
    page
      .getByRole('region', { name: 'Built-in templates' })
      .getByRole('row')
      .filter({ has: page.getByText(name, { exact: true }) })

  it('lists base and every template that Warren knows, and starts a sandbox of base', async () => {
    const { warren, page, open } = dashboard
    const known = (await (await warren.api('/built-in-templates')).json()) as BuiltInTemplate[]
    assert.ok(known.length > 4, 'base and the recipes')
    await open('templates')
    for (const { alias, about } of known) await rowOf(page, alias).getByText(about).waitFor()
    await rowOf(page, 'base').getByText('ready').waitFor()
    assert.equal(await rowOf(page, 'base').getByRole('button', { name: 'Build' }).count(), 0)
    await rowOf(page, 'desktop').getByText('about 4 minutes').waitFor()
    await rowOf(page, 'base').getByRole('button', { name: 'Start' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Create' }).click()
    await page.getByRole('button', { name: 'Pause' }).waitFor()
    await Sandbox.kill(new URL(page.url()).pathname.split('/').at(-1)!, warren.client)
  })

  it('builds one with the keyboard, shows its log, and tells why it failed', async (test) => {
    const { warren, page, open } = dashboard
    if (warren.isolation !== 'container')
      return test.skip('only containers reject this build at once; under gVisor it downloads Docker')
    await open('templates')
    const row = rowOf(page, 'docker')
    await row.getByRole('button', { name: 'Build' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog', { name: 'Build docker?' }).getByText('about 2 minutes').waitFor()
    await page.keyboard.press('Enter')
    const log = page.getByRole('dialog', { name: 'Build of docker' })
    await log.getByText('failed', { exact: true }).waitFor()
    await log.locator('.problem').getByText('Docker needs a root user who may mount').waitFor()
    await log.getByRole('log').getByText('Building template').waitFor()
    await page.keyboard.press('Escape')
    await log.waitFor({ state: 'detached' })
    await row.getByText('failed', { exact: true }).waitFor()
    await row.locator('.failure').getByText('Docker needs a root user who may mount').waitFor()
    await row.getByRole('button', { name: 'Build' }).waitFor()
  })

  const builtIn = (more: Partial<BuiltInTemplate>): BuiltInTemplate => ({
    ...{ name: 'thing', alias: 'thing', about: hostile, cpuCount: 2, memoryMB: 2048, diskSizeMB: 1024 },
    ...{ seconds: 90, ready: false },
    ...more,
  })
  const buildOf = (status: 'building' | 'ready' | 'error'): NonNullable<BuiltInTemplate['build']> => ({
    ...{ templateID: 'a-template', buildID: 'a-build', status, createdAt: new Date(1e12).toISOString() },
    ...(status === 'error' && { reason: hostile }),
  })

  it('leaves it to the operator to build again, with all contents, what every team has', async () => {
    const { warren, openPage } = dashboard
    // What would take minutes and the network is made up.
    const listed = [
      builtIn({}),
      builtIn({ name: 'made', alias: 'made-v1', ready: true, build: buildOf('ready') }),
      builtIn({ name: 'broken', alias: 'broken', ready: true, build: buildOf('error') }),
      builtIn({ name: 'slow', alias: 'slow', build: buildOf('building') }),
    ]
    const seen = async (secret: string) => {
      const { context, page } = await openPage()
      const posted: string[] = []
      await page.route(/\/built-in-templates$/, (route) => route.fulfill({ json: listed }))
      await page.route(/\/built-in-templates\//, async (route) => {
        const { pathname } = new URL(route.request().url())
        if (route.request().method() === 'POST') posted.push(`${pathname} ${route.request().postData()}`)
        await route.fulfill({ json: { status: 'building', logEntries: [], logs: [] } })
      })
      await logIn(page, warren.url, secret)
      await page.getByRole('link', { name: 'Templates' }).click()
      await rowOf(page, 'slow').getByText('building', { exact: true }).waitFor()
      assert.equal(await rowOf(page, 'slow').getByRole('button', { name: 'Build' }).count(), 0)
      await rowOf(page, 'broken').getByText('The last build failed: ').waitFor()
      return { context, page, posted, again: rowOf(page, 'made-v1').getByRole('button', { name: 'Rebuild' }) }
    }
    const team = await seen(warren.apiKey)
    assert.equal(await team.again.count(), 0)
    await rowOf(team.page, 'thing').getByRole('button', { name: 'Build' }).click()
    await team.page.getByRole('dialog').getByRole('button', { name: 'Build' }).click()
    await team.page.getByRole('dialog', { name: 'Build thing?' }).waitFor({ state: 'detached' })
    assert.deepEqual(team.posted, ['/built-in-templates/thing null'])
    assert.equal(await team.page.evaluate('window.owned'), undefined)
    await team.context.close()
    const operator = await seen(warren.adminToken)
    await operator.again.click()
    await operator.page.getByLabel('With everything that the template can hold').check()
    await operator.page.getByRole('dialog').getByRole('button', { name: 'Build' }).click()
    await operator.page.getByRole('dialog', { name: 'Build of made' }).waitFor()
    assert.deepEqual(operator.posted, ['/admin/built-in-templates/made {"full":true}'])
    await operator.context.close()
  })

  it('shows each line of a build as it comes, the newest in sight', async () => {
    const { warren, openPage } = dashboard
    const { context, page } = await openPage()
    const state = { lines: 200 }
    const entry = (_: unknown, at: number) => ({
      timestamp: new Date(1e12 + at).toISOString(),
      ...{ level: 'info', message: `line ${at + 1}.`, step: '1' },
    })
    await page.route(/\/built-in-templates$/, (route) =>
      route.fulfill({ json: [builtIn({ build: buildOf('building') })] }),
    )
    await page.route(/\/built-in-templates\/thing\?/, (route) => {
      const query = new URL(route.request().url()).searchParams
      const from = Number(query.get('logsOffset'))
      const logEntries = Array.from({ length: state.lines }, entry).slice(from, from + 100)
      return route.fulfill({ json: { status: 'building', logEntries, logs: [] } })
    })
    await logIn(page, warren.url, warren.apiKey)
    await page.getByRole('link', { name: 'Templates' }).click()
    await rowOf(page, 'thing').getByRole('button', { name: 'Log' }).click()
    const log = page.getByRole('log')
    await log.getByText('line 200.').waitFor()
    const isAtEnd = () =>
      log.evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 40 && box.scrollTop > 0)
    await eventually(async () => assert.ok(await isAtEnd()))
    state.lines = 230
    await log.getByText('line 230.').waitFor()
    await eventually(async () => assert.ok(await isAtEnd()))
    // Who has scrolled up reads on there.
    await log.evaluate((box) => box.scrollTo(0, 0))
    state.lines = 260
    await log.getByText('line 260.').waitFor()
    assert.equal(await log.evaluate((box) => box.scrollTop), 0)
    assert.equal(await log.getByText('line 230.').count(), 1)
    await context.close()
  })

  it('makes a template of a pasted Dockerfile with its log, and a sandbox of it', async () => {
    const { warren, page, open } = dashboard
    await open('templates')
    await page.getByRole('button', { name: 'New template' }).click()
    const dialog = page.getByRole('dialog', { name: 'New template' })
    await dialog.getByLabel('Name', { exact: true }).fill('pasted')
    await dialog.getByRole('button', { name: 'Dockerfile' }).click()
    const paste = dialog.getByLabel('Dockerfile')
    await paste.fill('FROM e2bdev/base\nCOPY app /app')
    await dialog.getByRole('button', { name: 'Build' }).click()
    await dialog.getByText('line 2: COPY and ADD need files').waitFor()
    const steps = ['RUN echo first step', 'RUN echo of the paste > /home/user/pasted']
    await paste.fill(['FROM e2bdev/base', ...steps].join('\n'))
    await dialog.getByRole('button', { name: 'Build' }).click()
    await page.getByRole('heading', { name: 'pasted' }).waitFor()
    await page.getByRole('log').getByText('first step').first().waitFor()
    await page.getByRole('log').getByText('Build finished').waitFor()
    const sandbox = await Sandbox.create('pasted', warren.client)
    assert.equal(await sandbox.files.read('/home/user/pasted'), 'of the paste\n')
    await sandbox.kill()
  })

  it('tells in plain words why a template of an image cannot be made', async () => {
    const { page, open } = dashboard
    await open('templates')
    await page.getByRole('button', { name: 'New template' }).click()
    const dialog = page.getByRole('dialog', { name: 'New template' })
    await dialog.getByLabel('Name', { exact: true }).fill('NOT a name')
    await dialog.getByLabel('Image', { exact: true }).fill('127.0.0.1:1/nothing:here')
    await dialog.getByLabel('CPUs').fill('3')
    await dialog.getByRole('button', { name: 'Build' }).click()
    const problem = dialog.getByRole('alert')
    for (const text of [`'NOT a name' is not a name`, 'must be 1 or an even number']) {
      await problem.getByText(text).waitFor()
    }
    await dialog.getByLabel('Name', { exact: true }).fill('of-an-image')
    await dialog.getByLabel('CPUs').fill('')
    await dialog.getByRole('button', { name: 'Build' }).click()
    await page.getByRole('heading', { name: 'of-an-image' }).waitFor()
    await page.locator('.problem').getByText('An operator can allow this registry').waitFor()
  })

  it('shows the snapshots that clients make, with and without a name', async () => {
    const { scene, page, open } = dashboard
    const { snapshotId } = await scene.busy.createSnapshot()
    const named = await scene.busy.createSnapshot({ name: 'by-a-client' })
    await open('snapshots')
    await page.getByRole('row').filter({ hasText: 'by-a-client' }).waitFor()
    const row = page.getByRole('row').filter({ hasText: snapshotId })
    await row.getByRole('link', { name: scene.busy.sandboxId }).waitFor()
    await row.getByText(/^\d+ CPU, .*iB, .*iB disk$/).waitFor()
    await row.getByText(/ago|just now/).waitFor()
    for (const id of [snapshotId, named.snapshotId]) await Sandbox.deleteSnapshot(id, dashboard.warren.client)
  })
}
