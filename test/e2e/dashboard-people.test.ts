/** People sign in at the dashboard and see what their role allows. The API stands on fakes: nothing here needs a sandbox. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { openDashboard } from '../../src/app/project/dashboard-bundle.ts'
import { axeSource, findingsOf } from '../dashboard/axe.ts'
import { openBrowser } from '../dashboard/browser.ts'
import { phoneSize } from '../dashboard/fixture.ts'
import { openSigningIn, type SigningIn } from '../support/signing-in.ts'

const withinMs = 180_000

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((done) => server.once('listening', done))
  const { port } = server.address() as AddressInfo
  await new Promise((done) => server.close(done))
  return port
}

describe('people at the dashboard', () => {
  const folder = mkdtempSync(join(tmpdir(), 'dashboard-people-'))
  let world: SigningIn
  let browser: Browser
  let url: string

  before(async () => {
    const port = await freePort()
    url = `http://localhost:${port}`
    const settings = {
      WARREN_PUBLIC_URL: url,
      WARREN_OIDC_LABEL: 'Example',
      WARREN_OIDC_GROUPS: 'developers=alpha:viewer;leads=alpha:owner;all=alpha:member;all=beta:viewer',
    }
    world = await openSigningIn(settings, { openDashboard: () => openDashboard(folder) })
    await world.app.teams.createTeam('Beta')
    await world.app.api.listen({ port, host: '127.0.0.1' })
    browser = await openBrowser()
  })

  after(async () => {
    await browser?.close()
    await world?.[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true, force: true })
  })

  async function open(name: string, group: string, path = ''): Promise<Page> {
    const email = `${name.toLowerCase()}@example.com`
    world.provider.claims = { sub: name, name, email, email_verified: true, groups: [group] }
    const context = await browser.newContext({ reducedMotion: 'reduce' })
    const page = await context.newPage()
    page.setDefaultTimeout(withinMs)
    await page.goto(`${url}/dashboard${path}`)
    await page.getByRole('link', { name: 'Sign in with Example' }).click()
    await page.locator('nav[aria-label="Views"]').waitFor({ state: 'attached' })
    return page
  }

  const addMember = async (page: Page, email: string) => {
    await page.getByRole('button', { name: 'Add a person' }).click()
    await page.getByRole('dialog').getByLabel('E-mail address').fill(email)
    await page.getByRole('dialog').getByRole('button', { name: 'Add' }).click()
    await page.getByRole('region', { name: 'Members' }).getByText(email).first().waitFor()
  }

  it('an owner signs in where they wanted to go, adds people, makes a key that ends, and reads of it in the audit', async () => {
    const page = await open('Lea', 'leads', '/members')
    await page.getByRole('heading', { name: 'Members', level: 1 }).waitFor()
    assert.equal(await page.evaluate('document.cookie'), '')
    await addMember(page, 'ada@example.com')
    await page.getByRole('link', { name: 'API keys' }).click()
    await page.getByRole('button', { name: 'New key' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('agents')
    await dialog.getByLabel('Role').selectOption('member')
    await dialog.getByLabel('Ends').selectOption('30')
    await dialog.getByLabel('For a service').check()
    await dialog.getByRole('button', { name: 'Create' }).click()
    await page.getByText('Copy it now').waitFor()
    await page.keyboard.press('Escape')
    await page.getByText('member, made by lea@example.com').waitFor()
    await page.getByRole('link', { name: 'Audit' }).click()
    const row = page.getByRole('region', { name: 'Audit' }).getByRole('row').filter({ hasText: 'key.create' })
    await row.getByText('lea@example.com').waitFor()
    await page.getByLabel('Action').selectOption('member.')
    await page.getByText('member.add').waitFor()
    assert.equal(await row.count(), 0)
    await page.getByRole('link', { name: 'Sessions of Lea' }).click()
    await page.getByText('this one').waitFor()
    await page.evaluate(axeSource)
    assert.deepEqual(await findingsOf(page, 'body'), [])
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByRole('link', { name: 'Sign in with Example' }).waitFor()
    assert.deepEqual(await findingsOf(page, 'body'), [])
    await page.context().close()
  })

  it('a viewer is shown nothing that they may not do, on a phone as well, and is refused what they send', async () => {
    const page = await open('Vic', 'developers')
    await page.setViewportSize(phoneSize)
    await page.getByRole('button', { name: 'Menu' }).click()
    const views = page.getByRole('navigation', { name: 'Views' })
    for (const hidden of ['Audit', 'Webhooks', 'Machine', 'Shares'])
      assert.equal(await views.getByRole('link', { name: hidden }).count(), 0, hidden)
    await views.getByRole('link', { name: 'Members' }).click()
    await page.getByText('Vic (you)').waitFor()
    assert.equal(await page.getByRole('button', { name: /^(Add a person|Remove)/ }).count(), 0)
    const status = await page.evaluate(`fetch('/sandboxes', {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"templateID":"base"}'
    }).then((answer) => answer.status)`)
    assert.equal(status, 403)
    await page.goto(`${url}/dashboard/templates`)
    await page.getByRole('heading', { name: 'Templates', level: 1 }).waitFor()
    assert.equal(await page.getByRole('button', { name: 'New template' }).count(), 0)
    await page.context().close()
  })

  it('two tabs look at two teams, and a change of the role shows in both requests', async () => {
    const page = await open('Two', 'all')
    const other = await page.context().newPage()
    other.setDefaultTimeout(withinMs)
    await other.goto(`${url}/dashboard/secrets`)
    await other.getByLabel('Team').selectOption({ label: 'Beta' })
    await other.getByRole('heading', { name: 'Secrets', level: 1 }).waitFor()
    assert.equal(await other.getByRole('button', { name: 'New secret' }).count(), 0)
    await page.getByRole('link', { name: 'Secrets' }).click()
    await page.getByLabel('Team').selectOption({ label: 'Alpha' })
    await page.getByRole('button', { name: 'New secret' }).click()
    await page.getByRole('dialog').getByLabel('Name').fill('mine')
    await page.getByRole('dialog').getByLabel('Value').fill('sealed')
    await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
    await page.getByRole('region', { name: 'Secrets' }).getByText('mine').waitFor()
    const inTeam = (team: string) =>
      page.evaluate(
        `fetch('/secrets', { headers: { 'x-team-id': '${team}' } }).then((answer) => answer.text())`,
      )
    assert.match(String(await inTeam('alpha')), /mine/)
    assert.equal(await inTeam('beta'), '[]')
    await page.context().close()
  })
})
