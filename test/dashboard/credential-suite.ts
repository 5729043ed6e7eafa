/** Who gets in, where the key lies, and what hostile texts cannot do. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { goTo, logIn } from './browser.ts'
import type { DashboardFixture } from './fixture.ts'
import { hostile } from './scene.ts'

export function credentialSuite(dashboard: DashboardFixture): void {
  it('tells a visitor without a valid key what is wrong', async () => {
    const { warren, openPage } = dashboard
    const { context: other, page: stranger } = await openPage()
    await goTo(stranger, warren.url)
    assert.equal(await stranger.getByRole('link', { name: 'documentation' }).getAttribute('href'), '/docs')
    await stranger.getByLabel('API key or admin token').fill(`e2b_${'0'.repeat(40)}`)
    await stranger.getByRole('button', { name: 'Log in' }).click()
    assert.match((await stranger.getByRole('alert').textContent()) ?? '', /key/i)
    await other.close()
  })

  it('stores the key where no other origin and no later visit finds it, and forgets it on request', async () => {
    const { warren, context, page, open } = dashboard
    await open('sandboxes')
    assert.deepEqual(await context.cookies(), [])
    const stored = (await page.evaluate('JSON.stringify(localStorage)')) as string
    assert.ok(!stored.includes(warren.apiKey))
    await page.getByRole('button', { name: 'Log out' }).click()
    await page.getByLabel('API key or admin token').waitFor()
    assert.equal(await page.evaluate('sessionStorage.length'), 0)
  })

  it('logs in by a link of `warren quickstart`, once, and opens its terminal', async () => {
    const { warren, openPage, busyPath } = dashboard
    const headers = { 'X-Admin-Token': warren.adminToken }
    const [team] = (await (await warren.api('/teams')).json()) as { teamID: string }[]
    const path = `/admin/teams/${team!.teamID}/dashboard-links`
    const made = await fetch(`${warren.url}${path}`, { method: 'POST', headers })
    const { code } = (await made.json()) as { code: string }
    const link = `${warren.url}/dashboard/${busyPath()}/terminal#link=${code}`
    const { context: other, page: visitor } = await openPage()
    await goTo(visitor, link)
    await visitor.locator('.xterm').waitFor()
    assert.equal(visitor.url(), link.split('#')[0])
    await other.close()
    const { context: third, page: late } = await openPage()
    await goTo(late, link)
    assert.match((await late.getByRole('alert').textContent()) ?? '', /used before/)
    await third.close()
  })

  it('shows hostile texts as texts, runs none of them, and sends no request elsewhere', async () => {
    const { warren, page, problems } = dashboard
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
}
