/** A machine on which gVisor does not work: sandboxes are containers, and Warren warns everybody. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Browser } from 'playwright-core'
import { builtVersion } from '../../src/app/setup/gvisor-build.ts'
import type { MachineReport } from '../../src/contract/rest/machine.ts'
import { goTo, logIn, openBrowser } from '../dashboard/browser.ts'
import { dataFolderOf, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const name = 'weaker'

/** A runsc where the set-up installs it, but whose commands all fail. */
function putBrokenRunsc(): void {
  const runtimes = join(dataFolderOf('container', name), 'runtimes')
  rmSync(runtimes, { recursive: true, force: true })
  const runsc = join(runtimes, `runsc-${builtVersion}`, 'runsc')
  mkdirSync(dirname(runsc), { recursive: true })
  writeFileSync(runsc, '#!/bin/sh\necho this kernel lacks something >&2\nexit 1\n', { mode: 0o755 })
}

describe('a machine on which gVisor does not work', () => {
  let warren: Warren
  let browser: Browser
  before(async () => {
    putBrokenRunsc()
    warren = await startWarren('container', { name, settings: { ...noWarmPool, WARREN_ISOLATION: 'auto' } })
    browser = await openBrowser()
  })
  after(async () => {
    await browser?.close()
    await warren?.stop()
  })

  it('the start continues with containers, and ends with a warning that has the reason and the remedy', () => {
    const said = readFileSync(warren.logFile, 'utf8')
    assert.match(said, /^Warren serves at .*plain containers, a weaker isolation: see the warning below/m)
    const [warning = ''] = /^WARNING: .*$/m.exec(said) ?? []
    assert.match(warning, /gVisor does not work here: .*this kernel lacks something/)
    assert.match(warning, /share this machine's kernel/)
    assert.match(warning, /`warren doctor` .*WARREN_ISOLATION=container/)
  })

  it('the operator finds the warning among the problems of the server', async () => {
    const headers = { 'X-Admin-Token': warren.adminToken }
    const report = (await (await warren.api('/admin/machine', { headers })).json()) as MachineReport
    assert.equal(report.isolation, 'container')
    const problem = report.problems.find(({ message }) => message.includes('isolate less'))
    assert.match(problem?.message ?? '', /this kernel lacks something/)
  })

  it('the dashboard shows the warning above every view, to a team as to the operator', async () => {
    for (const secret of [warren.apiKey, warren.adminToken]) {
      const context = await browser.newContext()
      const page = await context.newPage()
      await logIn(page, warren.url, secret)
      for (const view of ['sandboxes', 'templates']) {
        await goTo(page, `${warren.url}/dashboard/${view}`)
        await page.getByRole('alert').getByText('Containers isolate less').waitFor()
      }
      await context.close()
    }
  })
})
