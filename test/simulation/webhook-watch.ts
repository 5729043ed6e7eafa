/**
 * Holds what the receivers of webhooks get against the rows: who may be sent what, by whom, in which order, and that
 * nothing is left out.
 */
import { signatureOf } from '../../src/core/webhook/signature.ts'
import { giveUpAfterMs } from '../../src/core/webhook/webhook.ts'
import type { Row, RowChange } from './database.ts'
import { shortID } from './parked-calls.ts'
import type { SimulatedNode } from './simulated-node.ts'
import type { Simulation } from './simulation.ts'
import { Violation } from './violation.ts'

export const webhookSecret = 'the secret'

type WatchedWebhook = { webhookID: string; teamID: string; url: string; events: string[] }

/** An event on its way to a webhook that wanted it when it was written. */
type Expected = {
  webhookID: string
  eventID: string
  sandboxID: string
  number: number
  /** Undefined until its delivery is seen, which is written with the event. */
  deliveryID: string | undefined
  status: string
  nextAt: number
  createdAt: number
  /** The receiver has answered that it has it. */
  isAccepted: boolean
  /** When its outcome was recorded, and by which process. */
  recorded: { at: number; process: number | undefined } | undefined
}

export class WebhookWatch {
  readonly #simulation: Simulation
  readonly #webhooks = new Map<string, WatchedWebhook>()
  /** When clients were told that a webhook is deleted. */
  readonly #deletionReported = new Map<string, number>()
  /** Of webhooks that are there, by webhook and event. */
  readonly #expected = new Map<string, Expected>()
  /** `since` is when its holder began to hold it. */
  #lease: { holder: string; until: number; since: number } | undefined
  /** Counts what happens here, so that it is known what was before what. */
  #moment = 0
  /** By process: its last look at what is due. */
  readonly #lastLook = new Map<number, number>()

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  see({ table, before, after }: RowChange): void {
    if (table === 'webhooks') this.#seeWebhook(before, after)
    if (table === 'sandbox_events' && after) this.#seeEvent(after)
    if (table === 'webhook_deliveries') this.#seeDelivery(before, after)
    if (table === 'leases' && (after ?? before)?.name === 'webhooks') this.#seeLease(after)
  }

  #seeLease(after: Row | undefined): void {
    const holder = String(after?.holder)
    const since = this.#lease?.holder === holder ? this.#lease.since : ++this.#moment
    this.#lease = after && { holder, until: Number(after.until), since }
  }

  #seeWebhook(before: Row | undefined, after: Row | undefined): void {
    const { note } = this.#simulation
    const webhookID = String((after ?? before)!.id)
    if (after) {
      if (!before) note(() => `webhook ${shortID(webhookID)} of ${after.team_id} is there`)
      const events = JSON.parse(String(after.events)) as string[]
      this.#webhooks.set(webhookID, {
        webhookID,
        events,
        teamID: String(after.team_id),
        url: String(after.url),
      })
      return
    }
    note(() => `webhook ${shortID(webhookID)} is deleted`)
    this.#webhooks.delete(webhookID)
    for (const [key, expected] of this.#expected)
      if (expected.webhookID === webhookID) this.#expected.delete(key)
  }

  #seeEvent({ id, team_id, sandbox_id, number, type, at }: Row): void {
    for (const { webhookID, teamID, events } of this.#webhooks.values()) {
      if (teamID !== team_id || !events.includes(String(type))) continue
      this.#expected.set(`${webhookID} ${id}`, {
        webhookID,
        eventID: String(id),
        sandboxID: String(sandbox_id),
        number: Number(number),
        deliveryID: undefined,
        status: 'pending',
        nextAt: Number(at),
        createdAt: Number(at),
        isAccepted: false,
        recorded: undefined,
      })
    }
  }

  #seeDelivery(before: Row | undefined, after: Row | undefined): void {
    const { webhook_id, event_id } = (after ?? before)!
    const expected = this.#expected.get(`${webhook_id} ${event_id}`)
    // With a webhook go its deliveries.
    if (!expected) return
    if (!after) return void this.#say(`${nameOf(expected)} was forgotten before it arrived`)
    Object.assign(expected, {
      deliveryID: after.id,
      status: after.status,
      nextAt: Number(after.next_at),
    })
    if (after.status === before?.status || after.status === 'pending') return
    expected.recorded = { at: ++this.#moment, process: undefined }
    if (after.status === 'delivered' && !expected.isAccepted)
      this.#say(`${nameOf(expected)} counts as delivered, and its receiver has not said so`)
    const waitedMs = Number(after.ended_at) - expected.createdAt
    if (after.status === 'failed' && waitedMs < giveUpAfterMs)
      this.#say(`${nameOf(expected)} was given up after ${waitedMs} ms`)
  }

  /** A process has read what is due; the answer may reach it later. */
  noteLook(process: number): void {
    this.#lastLook.set(process, ++this.#moment)
  }

  /** A process has recorded an attempt, whether or not it hears of that. */
  noteRecorded(process: number, deliveryID: string): void {
    const recorded = this.#find(deliveryID)?.recorded
    if (recorded) recorded.process ??= process
  }

  noteDeletionReported(webhookID: string): void {
    this.#deletionReported.set(webhookID, ++this.#moment)
  }

  /** To be called when a process begins a request. */
  checkBegin({ name, process }: SimulatedNode, webhookID: string, deliveryID: string): void {
    const now = this.#simulation.time.now()
    const lookedAt = this.#lastLook.get(process) ?? 0
    const waitingSince = this.#lease?.since ?? 0
    if (this.#lease?.holder !== name || this.#lease.until < now)
      this.#say(`${name} sends without the lease, which ${this.#lease?.holder ?? 'nobody'} has`)
    const reportedAt = this.#deletionReported.get(webhookID)
    // What was listed before may still be on its way out.
    if (reportedAt !== undefined && reportedAt < lookedAt)
      this.#say(
        `the webhook ${shortID(webhookID)} is sent something, and its team was told that it is deleted`,
      )
    const expected = this.#find(deliveryID)
    const recorded = expected?.recorded
    if (!recorded) return
    // Another process may have recorded it since then: one that died or lost its lease, and whose statement was late.
    if (recorded.process === process || recorded.at < Math.max(lookedAt, waitingSince))
      this.#say(`${nameOf(expected)} is sent again, though it is recorded as ${expected.status}`)
  }

  /** To be called when a request arrives. */
  checkReceived(url: string, headers: Record<string, string>, body: string): void {
    const { note } = this.#simulation
    const { id: eventID, sandbox_id, sandbox_team_id } = JSON.parse(body) as Record<string, string>
    const webhookID = headers['e2b-webhook-id']!
    note(() => `webhook ${webhookID} receives ${headers['e2b-delivery-id']} of ${sandbox_id}`)
    if (headers['e2b-signature'] !== signatureOf(webhookSecret, body))
      this.#say('a request has the wrong signature')
    const [, ofTeam] = /^https:\/\/([^.]+)\./.exec(url)!
    if (ofTeam !== sandbox_team_id) this.#say(`a receiver of ${ofTeam} gets an event of ${sandbox_team_id}`)
    // Its webhook was deleted meanwhile.
    if (!this.#webhooks.has(webhookID)) return
    const expected = this.#expected.get(`${webhookID} ${eventID}`)
    if (!expected)
      return void this.#say(`the webhook ${shortID(webhookID)} gets an event that it did not want`)
    for (const other of this.#expected.values()) {
      const isBefore =
        other.webhookID === webhookID && other.sandboxID === sandbox_id && other.number < expected.number
      if (isBefore && other.status === 'pending')
        this.#say(`${nameOf(expected)} arrives before event ${other.number} has arrived or was given up`)
    }
  }

  noteAccepted(deliveryID: string): void {
    const expected = this.#find(deliveryID)
    if (expected) expected.isAccepted = true
  }

  /** By the wall clock: when the last of what waits is to be tried again; undefined: nothing waits. */
  waitsUntil(): number | undefined {
    const waiting = [...this.#expected.values()].filter(({ status }) => status === 'pending')
    return waiting.length > 0 ? Math.max(...waiting.map(({ nextAt }) => nextAt)) : undefined
  }

  checkAtRest(): void {
    for (const expected of this.#expected.values()) {
      if (expected.deliveryID === undefined) this.#say(`${nameOf(expected)} was never to be delivered`)
      else if (expected.status === 'pending') this.#say(`${nameOf(expected)} was not delivered`)
    }
  }

  #find(deliveryID: string): Expected | undefined {
    return [...this.#expected.values()].find((one) => one.deliveryID === deliveryID)
  }

  #say(text: string): void {
    this.#simulation.report(new Violation('webhooks', text))
  }
}

const nameOf = ({ sandboxID, number, webhookID }: Expected): string =>
  `event ${number} of ${shortID(sandboxID)} for the webhook ${shortID(webhookID)}`
