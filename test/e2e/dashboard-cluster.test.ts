/** What the operator does to machines and lost sandboxes in the dashboard, and that the cluster has done it. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { Client } from 'pg'
import type { Browser, Page } from 'playwright-core'
import type { Node } from '../../src/contract/rest/node.ts'
import { goTo, logIn, openBrowser } from '../dashboard/browser.ts'
import { type ClusterMember, startCluster, type TestCluster } from '../support/cluster.ts'
import { eventually } from '../support/eventually.ts'
import { openLink, type SeverableLink } from '../support/severable-link.ts'
import { anyIsolation, type Warren } from '../support/warren.ts'

const withinMs = 180_000

describe('the dashboard of a cluster', () => {
  let cluster: TestCluster
  let browser: Browser
  let link: SeverableLink
  let operator: Page
  let door: Warren
  let second: ClusterMember
  let secondName: string

  before(async () => {
    cluster = await startCluster(anyIsolation, { count: 2 })
    door = cluster.members[0]!.warren
    second = cluster.members[1]!
    secondName = second.nodeID.slice(0, 12)
    browser = await openBrowser()
    operator = await browser.newPage({ reducedMotion: 'reduce' })
    operator.setDefaultTimeout(withinMs)
    // Browsers trust pages of this machine alone without TLS.
    const { hostname, port } = new URL(door.url)
    link = await openLink({ host: hostname, port: Number(port) }, '127.0.0.1')
    await logIn(operator, `http://127.0.0.1:${link.port}`, door.adminToken)
    await operator.getByRole('link', { name: 'Machine' }).click()
  })
  after(async () => {
    await browser?.close()
    link?.close()
    await cluster?.stop()
  })

  /** Until it lands on the second machine. */
  async function createOnSecond(): Promise<Sandbox> {
    for (let attempt = 0; attempt < 30; attempt++) {
      const sandbox = await Sandbox.create(second.warren.client)
      if ((await cluster.ownerOf(sandbox.sandboxId)) === second) return sandbox
      await sandbox.kill()
    }
    throw new Error('No sandbox was placed on the second machine.')
  }

  async function statusOfSecond(): Promise<string | undefined> {
    const headers = { 'X-Admin-Token': door.adminToken }
    const nodes = (await (await door.api('/nodes', { key: null, headers })).json()) as Node[]
    return nodes.find(({ id }) => id === second.nodeID)?.status
  }

  it('recovers a lost sandbox of another machine with its files', async () => {
    const sandbox = await createOnSecond()
    await sandbox.files.write('/home/user/kept', 'kept')
    // With memory, a container would be held frozen beside its snapshot.
    await door.api(`/sandboxes/${sandbox.sandboxId}/pause`, { body: { memory: false } })
    await loseRow(cluster.databaseURL, sandbox.sandboxId)
    await second.restart('stop')
    await eventually(async () => assert.equal(await statusOfSecond(), 'ready'))
    assert.equal((await door.api(`/sandboxes/${sandbox.sandboxId}`)).status, 404)
    await goTo(operator, operator.url())
    const entry = operator.getByRole('row').filter({ hasText: sandbox.sandboxId })
    await entry.getByRole('button', { name: /^Recover/ }).click()
    await operator.getByText(`The sandbox ${sandbox.sandboxId} of`).waitFor()
    await operator.getByText('Nothing is in quarantine').waitFor()
    const recovered = await Sandbox.connect(sandbox.sandboxId, door.client)
    assert.equal(await recovered.files.read('/home/user/kept'), 'kept')
    await recovered.kill()
  })

  it('drains a machine, which then gets no new sandboxes, and undrains it', async () => {
    await operator.getByRole('button', { name: `Drain ${secondName}`, exact: true }).click()
    await operator.getByText(`${secondName} gets no new sandboxes.`).waitFor()
    assert.equal(await statusOfSecond(), 'draining')
    await eventually(async () => {
      const made = await Promise.all([1, 2, 3].map(() => Sandbox.create(door.client)))
      const owners = await Promise.all(made.map(({ sandboxId }) => cluster.ownerOf(sandboxId)))
      await Promise.all(made.map((sandbox) => sandbox.kill()))
      assert.ok(!owners.includes(second))
    })
    await operator.getByRole('button', { name: `Undrain ${secondName}` }).click()
    await operator.getByText(`${secondName} gets new sandboxes again.`).waitFor()
    assert.equal(await statusOfSecond(), 'ready')
  })

  it('forgets a machine that does not come back, and lists what is lost with it', async () => {
    const { sandboxId } = await createOnSecond()
    await second.warren.stop()
    await operator.getByRole('button', { name: `Forget ${secondName}` }).click()
    await operator.getByRole('dialog').getByRole('button', { name: 'Forget' }).click()
    // Its build of the base template goes with it, too.
    await operator
      .getByText(new RegExp(`^${secondName} is forgotten; lost with it: 1 sandbox, \\d builds?, 0 volumes`))
      .waitFor()
    await operator.getByRole('heading', { name: 'This machine' }).waitFor()
    assert.equal(await statusOfSecond(), undefined)
    assert.equal((await door.api(`/sandboxes/${sandboxId}`)).status, 404)
  })
})

/** The row of a paused sandbox ends as if by a fault, and so nothing owns its snapshot. */
async function loseRow(url: string, sandboxID: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  const lost = `update sandboxes set state = 'ended', saved = null, ended_at = 1, end_reason = 'lost' where id = $1`
  await client.query(lost, [sandboxID]).finally(() => client.end())
}
