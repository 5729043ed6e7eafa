import assert from 'node:assert/strict'
import type { SealedValue } from '../../core/secret/vault.ts'
import type { Attempt, DueDelivery, Webhook } from '../../core/webhook/webhook.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Stores } from '../stores.ts'
import { livesOf, namedAt } from './events.ts'
import { insertSandbox, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const secret: SealedValue = { keyID: 'key', sealed: 'sealed' }
const page = { offset: 0, limit: 100 }
const later = time + 1_000_000

function aWebhook(teamID: string, changes: Partial<Webhook> = {}): Webhook {
  return {
    webhookID: newUUID(),
    teamID,
    name: 'A webhook',
    url: 'https://receiver.test/',
    enabled: true,
    events: ['created', 'updated', 'killed'],
    failingSince: null,
    lastError: null,
    createdAt: time,
    ...changes,
  }
}

async function insertWebhook(stores: Stores, teamID: string, changes: Partial<Webhook> = {}) {
  const webhook = aWebhook(teamID, changes)
  assert.equal(await stores.webhooks.insert(webhook, secret, 100), true)
  return webhook
}

/** Inserts a running sandbox and sets its end `updates` times. */
async function insertRunning(stores: Stores, teamID: string, updates: number) {
  const sandbox = await insertSandbox(stores, teamID)
  await livesOf(stores, sandbox).transition('creating', 'running')
  const { sandboxID, runID } = sandbox
  for (let at = 1; at <= updates; at++)
    await stores.sandboxes.setEnd({ sandboxID, runID }, time + at, false, namedAt(time + 2000 + at))
  return sandbox
}

const attempt = (status: Attempt['status'], at = later): Attempt => ({
  status,
  at,
  nextAt: at + 5000,
  ...(status === 'delivered' ? { httpStatus: 200, error: null } : { httpStatus: 500, error: 'Status 500.' }),
})

const typeOf = ({ body }: DueDelivery): string => JSON.parse(body).type.split('.').at(-1)

export function webhookSuite(storeTest: StoreTest): void {
  storeTest('a webhook is read back unchanged, by its own team only', async (stores) => {
    const { webhooks } = stores
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const webhook = await insertWebhook(stores, teamID)
    const { webhookID } = webhook
    assert.deepEqual(await webhooks.find(teamID, webhookID), webhook)
    assert.deepEqual(await webhooks.list(teamID), [webhook])
    assert.equal(await webhooks.find(other.teamID, webhookID), undefined)
    assert.equal(await webhooks.update(other.teamID, webhookID, { name: 'x' }), undefined)
    assert.equal(await webhooks.delete(other.teamID, webhookID), false)
    assert.deepEqual(await webhooks.list(other.teamID), [])
    const changes = { name: 'x', url: 'http://x.test', enabled: false, events: ['paused'] as const }
    assert.deepEqual(await webhooks.update(teamID, webhookID, changes), { ...webhook, ...changes })
    assert.deepEqual(await webhooks.update(teamID, webhookID, {}), { ...webhook, ...changes })
    assert.equal(await webhooks.delete(teamID, webhookID), true)
    assert.equal(await webhooks.delete(teamID, webhookID), false)
  })

  storeTest('parallel inserts of webhooks do not exceed the limit of the team together', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const inserts = Array.from({ length: 8 }, () => stores.webhooks.insert(aWebhook(teamID), secret, 3))
    assert.equal((await Promise.all(inserts)).filter((inserted) => inserted).length, 3)
    const orphan = stores.webhooks.insert(aWebhook(newUUID()), secret, 3)
    await assert.rejects(orphan, (error) => isAppError(error, 'not_found'))
  })

  storeTest('an event is due for each enabled webhook of its team that wants it', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const wanting = await insertWebhook(stores, teamID)
    await insertWebhook(stores, teamID, { events: ['paused'] })
    await insertWebhook(stores, teamID, { enabled: false })
    await insertWebhook(stores, other.teamID)
    const { sandboxID } = await insertRunning(stores, teamID, 0)
    const [due, ...others] = await stores.deliveries.listDue(later, 10)
    assert.deepEqual(others, [])
    const { webhookID, url } = wanting
    const [event] = await stores.events.list({ teamID }, { ...page, order: 'asc' })
    const { deliveryID, body, ...rest } = due!
    const expected = { webhookID, sandboxID, attempts: 0, createdAt: event!.at, teamID, url, secret }
    assert.deepEqual(rest, expected)
    assert.equal(JSON.parse(body).id, event!.eventID)
    assert.deepEqual(await stores.deliveries.listDue(event!.at - 1, 10), [], 'its time has not come')
    const [listed] = await stores.deliveries.list(webhookID, page)
    assert.deepEqual(
      [listed?.deliveryID, listed?.status, listed?.eventID],
      [deliveryID, 'pending', event!.eventID],
    )
  })

  storeTest('only the earliest waiting event of each sandbox is due', async (stores) => {
    const { deliveries } = stores
    const { teamID } = await insertTeam(stores)
    await insertWebhook(stores, teamID)
    const first = await insertRunning(stores, teamID, 2)
    const second = await insertRunning(stores, teamID, 1)
    const dueOf = async ({ sandboxID }: { sandboxID: string }, at = later) =>
      (await deliveries.listDue(at, 10)).filter((one) => one.sandboxID === sandboxID)
    const [created] = await dueOf(first)
    assert.equal(typeOf(created!), 'created')
    await deliveries.record(created!, attempt('pending'))
    assert.deepEqual(await dueOf(first), [], 'the others wait for it')
    assert.equal((await dueOf(second)).length, 1, 'and the other sandbox does not')
    const [again] = await dueOf(first, later + 5000)
    assert.deepEqual(
      [again?.deliveryID, again?.attempts, again?.body],
      [created!.deliveryID, 1, created!.body],
    )
    await deliveries.record(again!, attempt('delivered'))
    assert.equal(typeOf((await dueOf(first))[0]!), 'updated')
    assert.equal((await deliveries.listDue(later, 1)).length, 1)
  })

  storeTest(
    'an attempt is recorded once, and its webhook shows whether deliveries arrive',
    async (stores) => {
      const { deliveries, webhooks } = stores
      const { teamID } = await insertTeam(stores)
      const { webhookID } = await insertWebhook(stores, teamID)
      await insertRunning(stores, teamID, 1)
      const stateOf = async () => {
        const { failingSince, lastError } = (await webhooks.find(teamID, webhookID))!
        return { failingSince, lastError }
      }
      const next = async () => (await deliveries.listDue(later * 2, 1))[0]!
      const seen = await next()
      await deliveries.record(seen, attempt('pending'))
      await deliveries.record(seen, attempt('delivered'))
      assert.deepEqual(await stateOf(), { failingSince: null, lastError: 'Status 500.' })
      await deliveries.record(await next(), attempt('failed', later + 7))
      assert.deepEqual(await stateOf(), { failingSince: later + 7, lastError: 'Status 500.' })
      await deliveries.record(await next(), attempt('delivered'))
      assert.deepEqual(await stateOf(), { failingSince: null, lastError: null })
      const listed = await deliveries.list(webhookID, page)
      assert.deepEqual(
        listed.map(({ status, attempts, lastStatus, endedAt }) => [status, attempts, lastStatus, endedAt]),
        [
          ['delivered', 1, 200, later],
          ['failed', 2, 500, later + 7],
        ],
      )
    },
  )

  storeTest('deliveries are removed with their webhook, and a disabled one gets nothing', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const { webhookID } = await insertWebhook(stores, teamID)
    await insertRunning(stores, teamID, 0)
    await stores.webhooks.update(teamID, webhookID, { enabled: false })
    assert.deepEqual(await stores.deliveries.listDue(later, 10), [])
    await stores.webhooks.delete(teamID, webhookID)
    assert.deepEqual(await stores.deliveries.list(webhookID, page), [])
  })

  storeTest(
    'deliveries are removed by age and by number, and those that still waited are reported',
    async (stores) => {
      const { deliveries, webhooks } = stores
      const { teamID } = await insertTeam(stores)
      const { webhookID } = await insertWebhook(stores, teamID)
      await insertRunning(stores, teamID, 3)
      await deliveries.record((await deliveries.listDue(later, 1))[0]!, attempt('delivered', time))
      await deliveries.prune({ endedBefore: time, maxPerWebhook: 10, now: later })
      assert.equal((await deliveries.list(webhookID, page)).length, 4)
      await deliveries.prune({ endedBefore: time + 1, maxPerWebhook: 10, now: later })
      assert.equal((await deliveries.list(webhookID, page)).length, 3)
      await deliveries.prune({ endedBefore: time + 1, maxPerWebhook: 2, now: later })
      assert.equal((await deliveries.list(webhookID, page)).length, 2)
      const { failingSince, lastError } = (await webhooks.find(teamID, webhookID))!
      assert.equal(failingSince, later)
      assert.match(lastError!, /More than 2 deliveries waited/)
    },
  )

  storeTest('a team is deleted with its events, webhooks and deliveries', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const { webhookID } = await insertWebhook(stores, teamID)
    const sandbox = await insertRunning(stores, teamID, 0)
    const life = livesOf(stores, sandbox)
    await life.transition('running', 'killing', { endReason: 'killed' })
    await life.transition('killing', 'ended', { endReason: 'killed', endedAt: time })
    assert.deepEqual(await stores.teams.deleteUnused(teamID), { deleted: true })
    assert.deepEqual(await stores.events.list({ teamID }, { ...page, order: 'asc' }), [])
    assert.deepEqual(await stores.deliveries.list(webhookID, page), [])
  })

  storeTest('a lease is extended by taking it again, and can be released', async ({ leases }) => {
    assert.equal(await leases.acquire('work', 60_000), true)
    assert.equal(await leases.acquire('work', 60_000), true)
    await leases.release('work')
    assert.equal(await leases.acquire('work', 60_000), true)
  })
}
