/** What the operator sees of the machine, and why the server refuses what it cannot do. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Node } from '../../src/contract/rest/node.ts'
import type { PruneReport } from '../../src/contract/rest/prune.ts'
import type { QuarantineEntry } from '../../src/contract/rest/quarantine.ts'
import type { SharesReport } from '../../src/contract/rest/shares.ts'
import type { Warren } from '../support/warren.ts'
import { goTo, logIn } from './browser.ts'
import type { DashboardFixture } from './fixture.ts'
import { hostile } from './scene.ts'

export function operatorSuite(dashboard: DashboardFixture): void {
  it('shows the operator the machine, with its health checks, and all teams', async () => {
    const { warren, scene, openPage } = dashboard
    const { context: other, page: operator } = await openPage()
    await logIn(operator, warren.url, warren.adminToken)
    await operator.keyboard.press('/')
    await operator.keyboard.type(scene.busy.sandboxId)
    await operator.getByRole('link', { name: scene.busy.sandboxId }).waitFor()
    const [team] = (await (await warren.api('/teams')).json()) as { teamID: string; name: string }[]
    const row = operator.locator('.row.item').filter({ hasText: scene.busy.sandboxId })
    await row.getByRole('cell', { name: team!.name, exact: true }).waitFor()
    // A link that somebody else has copied does not say whose sandbox it is.
    await goTo(operator, `${warren.url}/dashboard/sandboxes/${scene.busy.sandboxId}/connect`)
    await operator.getByText('Connect from a program').waitFor()
    assert.equal(new URL(operator.url()).searchParams.get('team'), team!.teamID)
    await goTo(operator, `${warren.url}/dashboard/volumes/00000000-0000-4000-8000-000000000000`)
    await operator.getByText('There is nothing here').waitFor()
    const docs = operator.getByRole('link', { name: 'Documentation' })
    assert.equal(await docs.getAttribute('href'), '/docs')
    await operator.getByRole('link', { name: 'Machine' }).click()
    await operator.getByText('Create, median').waitFor()
    await operator.getByText('namespaces').first().waitFor()
    await operator.getByRole('table').first().waitFor()
    await operator.getByRole('link', { name: 'Team', exact: true }).click()
    await operator.getByRole('button', { name: 'New team' }).waitFor()
    await other.close()
  })

  it('shows the operator what each team uses of the machine, who is above its share, and whom a guard touched and why', async () => {
    const { warren, scene, openPage } = dashboard
    const { context: other, page: operator } = await openPage()
    let change = (report: SharesReport): SharesReport => report
    await operator.route(/\/admin\/shares$/, async (route) =>
      route.fulfill({ json: change((await (await route.fetch()).json()) as SharesReport) }),
    )
    await logIn(operator, warren.url, warren.adminToken)
    const { sandboxId } = scene.busy
    const listed = await warren.api('/admin/shares', { key: null, headers: operatorHeaders(warren) })
    const { nodes } = (await listed.json()) as SharesReport
    const teamID = nodes[0]!.memory.teams[0]!.teamID
    const mebibytes = (count: number) => count * 1024 ** 2
    const use = { teamID, fairBytes: mebibytes(700), aboveBytes: 0 }
    // The machine of this test has enough of everything: what it would show with less is made up.
    change = ({ nodes: [first] }) => ({
      nodes: [
        {
          ...first!,
          memory: {
            freeBytes: mebibytes(300),
            startBytes: mebibytes(512),
            teams: [{ ...use, usedBytes: mebibytes(1331), aboveBytes: mebibytes(600) }],
          },
          connections: { count: 900, max: 9000, perTeam: 2250, teams: [{ teamID, count: 750 }] },
          disk: { ...first!.disk, teams: [{ ...use, usedBytes: mebibytes(900) }] },
          frozen: [{ sandboxID: sandboxId, teamID, guard: 'memory', since: new Date(1e12).toISOString() }],
          acts: [
            {
              ...{
                guard: 'memory',
                act: 'frozen',
                sandboxID: sandboxId,
                teamID,
                why: `Too little ${hostile}`,
              },
              ...{ firstAt: new Date(1e12).toISOString(), lastAt: new Date(1e12).toISOString(), count: 3 },
            },
          ],
        },
      ],
      missingNodes: ['a-node-that-is-silent'],
    })
    await operator.getByRole('link', { name: 'Shares' }).click()
    await operator.getByText('The node a-node-that- does not answer').waitFor()
    const row = operator.getByRole('region', { name: 'Shares of the teams' }).getByRole('row').nth(1)
    await row.getByText('1.3 GiB, above 700 MiB').waitFor()
    await row.getByText('900 MiB, above 700 MiB').waitFor()
    await row.getByText('600 MiB of memory').waitFor()
    await row.getByText('750 of 2,250').waitFor()
    const acts = operator.getByRole('list', { name: 'Acts of the guards' }).getByRole('listitem')
    await acts.getByText(`Too little ${hostile}`).waitFor()
    await acts.getByText('3 times').waitFor()
    // As it is, and with nobody at all.
    change = ({ nodes: [first] }) => ({ nodes: [{ ...first!, acts: [] }] })
    await operator.getByRole('region', { name: 'Frozen sandboxes' }).getByRole('link').click()
    await operator.getByRole('heading', { name: sandboxId }).waitFor()
    await operator.getByRole('link', { name: 'Shares' }).click()
    await operator.getByText('The guards touched nobody').waitFor()
    await row.getByText(' of ').first().waitFor()
    const nothing = { freeBytes: mebibytes(300), startBytes: 0, teams: [] }
    const connections = { count: 900, max: 9000 }
    change = ({ nodes: [first] }) => ({
      nodes: [{ ...first!, memory: nothing, disk: nothing, connections }],
    })
    await operator.reload()
    await operator.getByText('No team uses anything here').waitFor()
    await operator.getByText('No guard watches it').first().waitFor()
    await other.close()
  })

  it('lets the operator allow a team older clients, and reject them again', async () => {
    const { warren, openPage } = dashboard
    const { context: other, page: operator } = await openPage()
    await logIn(operator, warren.url, warren.adminToken)
    await operator.getByRole('link', { name: 'Team', exact: true }).click()
    await operator.getByRole('table').locator('.plain-link').first().click()
    await operator.getByText('This team may not use them').waitFor()
    await operator.getByRole('button', { name: 'Allow them' }).click()
    await operator.getByRole('dialog').getByRole('button', { name: 'Allow' }).click()
    await operator.getByText('This team may use them').waitFor()
    await operator.getByRole('button', { name: 'Reject them' }).click()
    await operator.getByText('This team may not use them').waitFor()
    await other.close()
  })

  it('sends undrain, forget, recover and prune to the server, and shows the operator why it rejects them', async () => {
    const { warren, openPage } = dashboard
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
    await operator.getByText('This Warren is not in a cluster').waitFor()
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
    await operator.getByText('2.0 GiB are freed.').waitFor()
    assert.deepEqual(pruned, ['{"dryRun":true}', '{"dryRun":false}'])
    await other.close()
  })

  const unowned: QuarantineEntry = {
    snapshotName: 'a-snapshot-of-nobody',
    sandboxID: null,
    reason: hostile,
    since: new Date(1e12).toISOString(),
    deletedAt: new Date(3e12).toISOString(),
  }

  const operatorHeaders = (warren: Warren) => ({ 'X-Admin-Token': warren.adminToken })

  const freed = { count: 0, bytes: 0 }

  const prunable: PruneReport = {
    dryRun: true,
    steps: { count: 3, bytes: 0 },
    savedStates: { count: 1, bytes: 2 ** 31 },
    layers: freed,
    files: freed,
    bytes: 2 ** 31,
  }
}
