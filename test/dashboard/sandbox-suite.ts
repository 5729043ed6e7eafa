/** The list of sandboxes, and everything of one of them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { it } from 'node:test'
import type { ListedSandbox, SandboxDetail } from '../../src/contract/rest/sandbox.ts'
import { eventually } from '../support/eventually.ts'
import { type DashboardFixture, enterName } from './fixture.ts'

export function sandboxSuite(dashboard: DashboardFixture): void {
  it('lists sandboxes, and finds them by state and by metadata', async () => {
    const { scene, page, open } = dashboard
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
    const { scene, page, open, busyPath } = dashboard
    await open(busyPath())
    await page.getByRole('link', { name: '8000' }).waitFor()
    const href = await page.getByRole('link', { name: '8000' }).getAttribute('href')
    assert.match(href ?? '', new RegExp(`^http://8000-${scene.busy.sandboxId}\\.localhost:`))
    await page.locator('.u-over').first().waitFor()
    await page.getByText('Created').waitFor()
  })

  it('has a terminal in which commands run', async () => {
    const { scene, page, open, busyPath } = dashboard
    await open(`${busyPath()}/terminal`)
    await page.getByText('connected', { exact: true }).waitFor()
    const colour = '\\e[38;2;1;2;3m'
    await page.keyboard.type(`echo $((6*7)) > /tmp/typed; printf '${colour}done-%d\\n' 2\n`)
    await eventually(async () => assert.equal((await scene.busy.files.read('/tmp/typed')).trim(), '42'))
    await page.locator('.xterm-rows').getByText('done-2').waitFor()
    const isShown = "(span) => span.textContent.includes('done-2')"
    const shown = `[...document.querySelectorAll('.xterm-rows span')].find(${isShown})`
    assert.equal(await page.evaluate(`getComputedStyle(${shown}).color`), 'rgb(1, 2, 3)')
  })

  it('edits, uploads and downloads files', async () => {
    const { scene, page, open, busyPath } = dashboard
    await open(`${busyPath()}/files`)
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
    const { scene, page, open, busyPath } = dashboard
    const { files } = scene.busy
    await files.write('/home/user/first.txt', 'kept')
    await open(`${busyPath()}/files`)
    await page.getByRole('button', { name: 'New folder' }).click()
    await enterName(page, 'drafts', 'Create')
    await eventually(async () => assert.ok(await files.exists('/home/user/drafts')))
    await page.getByRole('button', { name: 'Rename first.txt' }).click()
    await enterName(page, 'notes.md', 'Rename')
    await page.getByRole('dialog').getByText('There is a notes.md already.').waitFor()
    await enterName(page, 'second.txt', 'Rename')
    await page.getByRole('button', { name: 'Delete second.txt' }).waitFor()
    assert.equal(await files.read('/home/user/second.txt'), 'kept')
    await page.getByRole('button', { name: 'Delete second.txt' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await eventually(async () => assert.ok(!(await files.exists('/home/user/second.txt'))))
  })

  it('follows logs and searches them', async () => {
    const { warren, scene, page, open, busyPath } = dashboard
    await open(`${busyPath()}/logs`)
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
    const { warren, scene, page, open, busyPath } = dashboard
    await open(`${busyPath()}/processes`)
    await page.getByText('python3 /home/user/server.py').first().waitFor()
    assert.equal(await page.getByRole('row').filter({ hasText: '/.warren/' }).count(), 0)
    await open(`${busyPath()}/network`)
    await page.getByLabel('Denied').fill('203.0.113.0/24')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The egress policy is changed.').waitFor()
    const detail = (await (await warren.api(`/sandboxes/${scene.busy.sandboxId}`)).json()) as SandboxDetail
    assert.deepEqual(detail.network?.denyOut, ['203.0.113.0/24'])
  })

  it('repeats requests that a broken connection cut off, and says of a fork that it may have happened', async () => {
    const { warren, scene, page, open } = dashboard
    const path = `sandboxes/${scene.paused.sandboxId}`
    const broken: string[] = []
    const breakOnce = (url: RegExp) =>
      page.route(
        url,
        (route) => {
          broken.push(url.source)
          return route.abort('connectionreset')
        },
        { times: 1 },
      )
    const cutOff = [/assets\/uPlot/i, new RegExp(`^${warren.url}/${path}$`), /\/fork$/]
    for (const url of cutOff) await breakOnce(url)
    await open(path)
    await page.locator('.u-over').first().waitFor()
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.getByRole('button', { name: 'Fork' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Fork' }).click()
    await page.getByRole('dialog').getByText('this may be done or not').waitFor()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click()
    const listed = (await (await warren.api('/v2/sandboxes?metadata=user%3D7')).json()) as ListedSandbox[]
    assert.equal(listed.length, 1)
    assert.deepEqual(broken.sort(), cutOff.map(({ source }) => source).sort())
  })

  it('extends, snapshots and forks a sandbox that was resumed, and kills many after asking once', async () => {
    const { warren, scene, page, open } = dashboard
    const { sandboxId } = scene.paused
    const inDialog = (name: string) => page.getByRole('dialog').getByRole('button', { name }).click()
    await open(`sandboxes/${sandboxId}`)
    await page.getByRole('button', { name: 'Extend' }).click()
    await page.getByRole('dialog').getByLabel('Minutes from now').fill('600')
    await inDialog('Set')
    await page.getByText('ends in 9h').waitFor()
    await page.getByRole('button', { name: 'Snapshot' }).click()
    await inDialog('Create')
    await page.getByText(/^Snapshot .* is ready/).waitFor()
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
}
