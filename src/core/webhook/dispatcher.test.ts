import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { addTeam, type Fixture, openFixture, request, turning, until } from '../../../test/support/domain.ts'
import { JumpingClock } from '../../../test/support/jumping-clock.ts'
import { connectionLost } from '../../../test/support/store-faults.ts'
import { silentLog } from '../../lib/log.ts'
import { vault } from '../../store/suite/rows.ts'
import type { EventType } from '../event/event.ts'
import type { Team } from '../team/team.ts'
import {
  requestTimeoutMs,
  WebhookDispatcher,
  type WebhookRequestOptions,
  type WebhookSender,
} from './dispatcher.ts'
import { WebhookService } from './service.ts'
import { signatureOf } from './signature.ts'
import { webhookLimits } from './webhook.ts'

type Sent = WebhookRequestOptions & { type: string; sandboxID: string }

/** A receiver that answers what a test says, and remembers what it was sent. */
class FakeSender implements WebhookSender {
  readonly sent: Sent[] = []
  answer: (sent: Sent, signal: AbortSignal) => number | Promise<number> = () => 200

  async send(options: WebhookRequestOptions, signal: AbortSignal): Promise<number> {
    const { type, sandbox_id: sandboxID } = JSON.parse(options.body)
    const sent = { ...options, type: type.split('.').at(-1), sandboxID }
    this.sent.push(sent)
    return this.answer(sent, signal)
  }

  types(sandboxID?: string): string[] {
    return this.sent.filter((one) => (sandboxID ?? one.sandboxID) === one.sandboxID).map(({ type }) => type)
  }
}

const everything: EventType[] = ['created', 'updated', 'paused', 'resumed', 'checkpointed', 'killed']

function openWebhooks(fixture: Fixture, sender = new FakeSender()) {
  const { stores, clock } = fixture
  const service = new WebhookService({ ...stores, vault, clock, isClosed: () => false })
  const dispatcher = new WebhookDispatcher({ ...stores, vault, sender, clock, log: silentLog })
  const add = (team: Team = fixture.team, url = 'https://receiver.test/') =>
    service.create(team, { name: 'w', url, enabled: true, events: everything, secret: 'the secret' })
  return { service, dispatcher, sender, add }
}

describe('webhooks', () => {
  it('wait at most ten seconds for an answer, and record the timeout', async () => {
    await using fixture = await openFixture()
    const { add, dispatcher, sender, service } = openWebhooks(fixture)
    const { webhookID } = await add()
    const { team, clock } = fixture
    sender.answer = (_, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    await fixture.service.create(team, request())
    await dispatcher.run()
    await until(async () => sender.sent.length === 1)
    clock.advance(requestTimeoutMs)
    const listed = () => service.listDeliveries(team, webhookID, { offset: 0, limit: 10 })
    await until(async () => (await listed()).some(({ attempts }) => attempts === 1))
    assert.deepEqual(
      (await listed()).map(({ status, lastError }) => [status, lastError]),
      [['pending', 'There was no answer within 10 s.']],
    )
    await dispatcher.close()
  })

  it('are not sent again and again while the outcome cannot be recorded', async () => {
    await using fixture = await openFixture()
    const { clock, stores } = fixture
    let fails = true
    const record = stores.deliveries.record.bind(stores.deliveries)
    stores.deliveries.record = async (...given) => {
      if (fails) throw new Error('the row cannot be written')
      return record(...given)
    }
    const { add, dispatcher, sender } = openWebhooks(fixture)
    await add()
    await fixture.service.create(fixture.team, request())
    /** The server starts a round each second. */
    const rounds = async (count: number) => {
      for (let round = 0; round < count; round++) {
        await dispatcher.run()
        for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve))
        clock.advance(1000)
      }
    }
    await rounds(60)
    assert.ok(
      sender.sent.length >= 4 && sender.sent.length <= 8,
      `${sender.sent.length} requests in a minute`,
    )
    fails = false
    await rounds(61)
    const sent = sender.sent.length
    await rounds(61)
    assert.equal(sender.sent.length, sent)
    await dispatcher.close()
  })

  it("get the events of a sandbox's life in their order, signed, each once", async () => {
    await using fixture = await openFixture()
    const { add, dispatcher, sender, service } = openWebhooks(fixture)
    const { webhookID } = await add()
    const { team } = fixture
    const { sandboxID } = await fixture.service.create(team, request())
    await fixture.service.setTimeout(team, sandboxID, 50_000)
    await fixture.service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
    await fixture.service.resume(team, sandboxID, { timeoutMs: 60_000, memory: true })
    await fixture.service.kill(team, sandboxID)
    await dispatcher.run()
    await until(async () => sender.sent.length === 5)
    assert.deepEqual(sender.types(), ['created', 'updated', 'paused', 'resumed', 'killed'])
    const [first] = sender.sent
    const { 'e2b-delivery-id': deliveryID, 'e2b-signature': signature, ...headers } = first!.headers
    assert.equal(signature, signatureOf('the secret', first!.body))
    assert.equal(headers['e2b-webhook-id'], webhookID)
    assert.equal(headers['e2b-signature-version'], 'v1')
    const listed = () => service.listDeliveries(team, webhookID, { offset: 0, limit: 10 })
    await until(async () => (await listed()).every(({ status }) => status === 'delivered'))
    assert.ok((await listed()).some((one) => one.deliveryID === deliveryID))
    await dispatcher.run()
    assert.equal(sender.sent.length, 5)
    await dispatcher.close()
  })

  it('get the same bytes again after growing delays if they fail, and later events of the sandbox wait', async () => {
    await using fixture = await openFixture()
    const { add, dispatcher, sender, service } = openWebhooks(fixture)
    const { webhookID } = await add()
    const { team, clock } = fixture
    const failing = await fixture.service.create(team, request())
    const other = await fixture.service.create(team, request())
    sender.answer = ({ sandboxID }) => (sandboxID === failing.sandboxID ? 500 : 200)
    await fixture.service.setTimeout(team, failing.sandboxID, 3_600_000)
    await fixture.service.setTimeout(team, other.sandboxID, 3_600_000)
    const attempts = async () => {
      const listed = await service.listDeliveries(team, webhookID, { offset: 0, limit: 10 })
      const created = listed.find(
        ({ sandboxID, type }) => sandboxID === failing.sandboxID && type === 'created',
      )!
      return created.attempts
    }
    for (const [round, pauseMs] of [5000, 10_000, 20_000].entries()) {
      await dispatcher.run()
      await until(async () => (await attempts()) === round + 1)
      clock.advance(pauseMs - 1)
      await dispatcher.run()
      assert.equal(await attempts(), round + 1)
      clock.advance(1)
    }
    assert.deepEqual(sender.types(failing.sandboxID), ['created', 'created', 'created'])
    assert.deepEqual(sender.types(other.sandboxID), ['created', 'updated'])
    const bodies = sender.sent.filter(({ sandboxID }) => sandboxID === failing.sandboxID)
    assert.equal(new Set(bodies.map(({ body }) => body)).size, 1)
    const { lastError, failingSince } = await service.get(team, webhookID)
    assert.deepEqual([lastError, failingSince], ['The receiver answered with status 500.', null])
    sender.answer = () => 204
    await dispatcher.run()
    await until(async () => sender.types(failing.sandboxID).at(-1) === 'updated')
    await until(async () => (await service.get(team, webhookID)).lastError === null)
    await dispatcher.close()
  })

  it('stop being retried after a day and are shown as failing, until a delivery succeeds again', async () => {
    await using fixture = await openFixture()
    const { add, dispatcher, sender, service } = openWebhooks(fixture)
    const { webhookID } = await add()
    const { team, clock } = fixture
    sender.answer = () => Promise.reject(new Error('The receiver could not be reached: ECONNREFUSED.'))
    await fixture.service.create(team, request())
    const state = async () => {
      const listed = await service.listDeliveries(team, webhookID, { offset: 0, limit: 10 })
      const { status, attempts } = listed.find(({ type }) => type === 'created')!
      return { status, attempts }
    }
    let attempts = 0
    for (; (await state()).status === 'pending'; attempts++) {
      assert.ok(attempts < 100)
      await dispatcher.run()
      await until(async () => (await state()).attempts === attempts + 1)
      clock.advance(3_600_000)
    }
    assert.equal((await state()).status, 'failed')
    assert.equal(attempts, 25)
    const failed = await service.get(team, webhookID)
    assert.match(failed.lastError!, /ECONNREFUSED/)
    assert.ok(failed.failingSince !== null)
    sender.answer = () => 200
    await fixture.service.create(team, request())
    await dispatcher.run()
    await until(async () => (await service.get(team, webhookID)).failingSince === null)
    await dispatcher.close()
  })

  it('do not delay others if they never answer, and get a few requests at a time', async () => {
    await using fixture = await openFixture()
    const { add, dispatcher, sender } = openWebhooks(fixture)
    const other = await addTeam(fixture, 'other')
    await add(fixture.team, 'https://slow.test/')
    await add(other, 'https://quick.test/')
    sender.answer = ({ url }, signal) =>
      url.includes('quick')
        ? 200
        : new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    for (let at = 0; at < webhookLimits.requestsAtOnce + 2; at++) {
      const slow = await fixture.service.create(fixture.team, request())
      await fixture.service.kill(fixture.team, slow.sandboxID)
    }
    for (let at = 0; at < 3; at++) await fixture.service.create(other, request())
    await dispatcher.run()
    const sentTo = (name: string) => sender.sent.filter(({ url }) => url.includes(name)).length
    await until(async () => sentTo('quick') === 3)
    await dispatcher.run()
    assert.equal(sentTo('slow'), webhookLimits.requestsAtOnce)
    await dispatcher.close()
  })

  it('get unfinished deliveries again after a crash, from one Warren at a time', async () => {
    await using fixture = await openFixture()
    const first = openWebhooks(fixture)
    await first.add()
    await fixture.service.create(fixture.team, request())
    first.sender.answer = () => new Promise(() => {})
    await first.dispatcher.run()
    assert.equal(first.sender.sent.length, 1)
    const leases = { acquire: async () => false, release: async () => {} }
    const sender = new FakeSender()
    const { stores, clock } = fixture
    const idle = new WebhookDispatcher({ ...stores, vault, sender, clock, leases, log: silentLog })
    await idle.run()
    assert.deepEqual(sender.sent, [], 'the lease is held by another')
    const next = openWebhooks(fixture)
    await next.dispatcher.run()
    await until(async () => next.sender.sent.length === 1)
    assert.equal(next.sender.sent[0]!.body, first.sender.sent[0]!.body)
    await next.dispatcher.close()
  })

  it('survive a store that fails for a moment', async () => {
    await using fixture = await openFixture()
    const { stores, clock, team } = fixture
    let failures = 2
    const deliveries = {
      list: stores.deliveries.list.bind(stores.deliveries),
      listDue: stores.deliveries.listDue.bind(stores.deliveries),
      prune: stores.deliveries.prune.bind(stores.deliveries),
      record: async (...args: Parameters<typeof stores.deliveries.record>) => {
        if (failures-- > 0) throw connectionLost()
        return stores.deliveries.record(...args)
      },
    }
    const sender = new FakeSender()
    const parts = { ...stores, deliveries, vault, sender, clock, log: silentLog }
    const { webhookID } = await openWebhooks(fixture).add()
    const dispatcher = new WebhookDispatcher(parts)
    await fixture.service.create(team, request())
    await dispatcher.run()
    await until(async () => {
      clock.advance(100)
      const [delivery] = await stores.deliveries.list(webhookID, { offset: 0, limit: 1 })
      return delivery?.status === 'delivered'
    })
    assert.equal(sender.sent.length, 1)
    await dispatcher.close()
  })
})

describe('webhooks under faults', () => {
  it('get no event again that was delivered while the list of due events was read', async () => {
    await using fixture = await openFixture()
    const { add, dispatcher, sender, service } = openWebhooks(fixture)
    const { webhookID } = await add()
    const { stores, team } = fixture
    const answer = Promise.withResolvers<number>()
    sender.answer = () => answer.promise
    await fixture.service.create(team, request())
    await dispatcher.run()
    await until(async () => sender.sent.length === 1)
    const listDue = stores.deliveries.listDue.bind(stores.deliveries)
    stores.deliveries.listDue = async (...args) => {
      stores.deliveries.listDue = listDue
      const due = await listDue(...args)
      assert.equal(due.length, 1)
      answer.resolve(200)
      const listed = () => service.listDeliveries(team, webhookID, { offset: 0, limit: 1 })
      await until(async () => (await listed())[0]?.status === 'delivered')
      await new Promise((resolve) => setImmediate(resolve))
      return due
    }
    await dispatcher.run()
    await dispatcher.close()
    assert.equal(sender.sent.length, 1)
  })

  it('get nothing from a Warren whose lease ended while it read the due events', async () => {
    await using fixture = await openFixture()
    const { add, dispatcher, sender } = openWebhooks(fixture)
    await add()
    const { stores, clock, team } = fixture
    await fixture.service.create(team, request())
    const listDue = stores.deliveries.listDue.bind(stores.deliveries)
    let reads = 0
    stores.deliveries.listDue = async (...args) => {
      const due = await listDue(...args)
      // The second read is the one under the lease.
      if (++reads === 2) clock.advance(90_000)
      return due
    }
    await dispatcher.run()
    assert.equal(reads, 2)
    assert.equal(sender.sent.length, 0)
    await dispatcher.run()
    await until(async () => sender.sent.length === 1)
    await dispatcher.close()
  })

  it('get nothing on a lease that has ended while the clock of the machine was set back', async () => {
    const clock = new JumpingClock()
    await using fixture = await openFixture({ clock })
    const { add, dispatcher, sender } = openWebhooks(fixture)
    await add()
    const { stores, team } = fixture
    await fixture.service.create(team, request())
    await dispatcher.run()
    await until(async () => sender.sent.length === 1)
    // Another Warren has the lease when it has ended.
    stores.leases.acquire = async () => false
    clock.jump(-60_000)
    clock.advance(59_000)
    await fixture.service.create(team, request())
    await dispatcher.run()
    assert.equal(sender.sent.length, 1)
    await dispatcher.close()
  })

  it('are created once although the answer is lost', async () => {
    await using fixture = await openFixture()
    const { stores, clock, team } = fixture
    const { add, service } = openWebhooks(fixture)
    const insert = stores.webhooks.insert.bind(stores.webhooks)
    stores.webhooks.insert = async (...args) => {
      stores.webhooks.insert = insert
      await insert(...args)
      throw connectionLost()
    }
    const webhook = await turning(clock, add())
    assert.deepEqual(await service.list(team), [webhook])
  })
})
