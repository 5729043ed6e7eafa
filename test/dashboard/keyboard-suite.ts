/** The dashboard without a mouse. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { eventually } from '../support/eventually.ts'
import type { DashboardFixture } from './fixture.ts'

export function keyboardSuite(dashboard: DashboardFixture): void {
  const nameOfFocused = async (): Promise<string> =>
    (await dashboard.page.evaluate(
      `(document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText).trim()`,
    )) as string

  it('opens any view, sandbox and command by a few letters', async () => {
    const { scene, page, open } = dashboard
    await open('sandboxes')
    await page.getByRole('link', { name: scene.busy.sandboxId }).waitFor()
    const palette = page.getByRole('combobox', { name: 'Find or do' })
    const choose = async (text: string) => {
      await page.keyboard.press('Control+k')
      await page.keyboard.type(text)
      assert.equal(await palette.inputValue(), text)
      await page.keyboard.press('Enter')
    }
    await choose('webho')
    await page.getByRole('heading', { name: 'Webhooks', level: 1 }).waitFor()
    await choose(scene.busy.sandboxId.slice(-6))
    await page.getByRole('heading', { name: scene.busy.sandboxId }).waitFor()
    await choose('webho')
    await page.getByRole('heading', { name: 'Webhooks', level: 1 }).waitFor()
    await choose('task=summarize')
    await page.getByRole('heading', { name: scene.busy.sandboxId }).waitFor()
    await page.keyboard.press('Control+k')
    const options = page.getByRole('listbox', { name: 'Found' }).getByRole('option')
    await page.keyboard.press('ArrowDown')
    assert.equal(await options.nth(1).getAttribute('aria-selected'), 'true')
    await page.keyboard.type('nothing has this name')
    await page.getByText('Nothing has this name, id or metadata').waitFor()
    await page.keyboard.press('Escape')
    await palette.waitFor({ state: 'detached' })
    await choose('create a sand')
    await page.getByRole('dialog', { name: 'New sandbox' }).waitFor()
    assert.equal(await page.evaluate('document.activeElement.tagName'), 'SELECT')
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
  })

  it('moves from part to part with Tab in the order of the screen, or past them to the content', async () => {
    const { page, open } = dashboard
    await open('templates')
    const order: string[] = []
    for (let presses = 0; presses < 12; presses++) {
      await page.keyboard.press('Tab')
      order.push(await nameOfFocused())
    }
    assert.equal(order[0], 'Skip to the content')
    const views = [
      'Sandboxes',
      'Templates',
      'Snapshots',
      'Volumes',
      'Secrets',
      'Webhooks',
      'API keys',
      'Team',
    ]
    assert.deepEqual(order.slice(3, 3 + views.length), views)
    await open('templates')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    assert.equal(await page.evaluate('document.activeElement.tagName'), 'MAIN')
  })

  it('moves to the search with a slash and back with Escape, and from a dialog to the button that opened it', async () => {
    const { page, open } = dashboard
    await open('sandboxes')
    const search = page.getByLabel('Search sandboxes')
    await search.waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('a/b')
    assert.equal(await search.inputValue(), 'a/b')
    await page.keyboard.press('Escape')
    assert.equal(await search.inputValue(), '')
    assert.equal(await page.evaluate('document.activeElement.tagName'), 'BODY')
    const button = page.getByRole('button', { name: 'New sandbox' })
    for (const leave of ['Escape', 'Cancel']) {
      await button.focus()
      await page.keyboard.press('Enter')
      await page.getByRole('dialog').waitFor()
      if (leave === 'Escape') await page.keyboard.press('Escape')
      else await page.getByRole('dialog').getByRole('button', { name: leave }).click()
      await eventually(async () => assert.equal(await nameOfFocused(), 'New sandbox'))
    }
  })
}
