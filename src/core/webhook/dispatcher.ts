/**
 * Sends events to webhooks: at least once, and those of one sandbox in their order, since the next is sent only when the
 * one before has arrived or was given up. Of several Warrens on one database the one that holds the lease sends.
 */
import { errorText } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { deadlineSignal } from '../../lib/deadline.ts'
import type { Log } from '../../lib/log.ts'
import { retryPassing } from '../../lib/retry-passing.ts'
import type { LeaseStore } from '../ports/lease-store.ts'
import type { SecretVault } from '../secret/vault.ts'
import { signatureOf } from './signature.ts'
import {
  type Attempt,
  type DueDelivery,
  giveUpAfterMs,
  pauseAfter,
  placeOfSecret,
  webhookLimits,
} from './webhook.ts'
import type { DeliveryStore } from './webhook-store.ts'

/** No request takes longer: what has not been answered by then has failed. */
export const requestTimeoutMs = 10_000
const lease = 'webhooks'
const leaseMs = 60_000
/** Nothing is sent on a lease that could end before the answer comes. */
const renewBeforeMs = 30_000
/** For the whole Warren: a bound on sockets, far above what well-behaved receivers need. */
const mostRequests = 256

export type WebhookRequestOptions = { url: string; headers: Record<string, string>; body: string }

export interface WebhookSender {
  /** Resolves with the status of the answer. Rejects with words that may be shown to the team. */
  send(request: WebhookRequestOptions, signal: AbortSignal): Promise<number>
}

export type WebhookDispatcherParts = {
  deliveries: DeliveryStore
  leases: LeaseStore
  vault: SecretVault
  sender: WebhookSender
  clock: Clock
  log: Log
}

export class WebhookDispatcher {
  readonly #parts: WebhookDispatcherParts
  /** By webhook and sandbox: what is under way. */
  readonly #sending = new Map<string, Promise<void>>()
  readonly #perWebhook = new Map<string, number>()
  /** Deliveries whose outcome was recorded since those that are due were last asked for. */
  readonly #recordedLately = new Set<string>()
  readonly #closing = new AbortController()
  #leaseUntil = 0
  #round: Promise<void> | undefined
  #isDueAgain = false

  constructor(parts: WebhookDispatcherParts) {
    this.#parts = parts
  }

  /** Begins to send what is due. Resolves once it has begun, not once it has arrived. */
  run(): Promise<void> {
    this.#isDueAgain = true
    this.#round ??= this.#rounds().finally(() => {
      this.#round = undefined
    })
    return this.#round
  }

  /** What is under way is cut off, and sent again by whoever comes next. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('Warren stops'))
    await this.#round?.catch(() => {})
    await Promise.all(this.#sending.values())
    if (this.#leaseUntil > 0) await this.#parts.leases.release(lease)
  }

  async #rounds(): Promise<void> {
    while (this.#isDueAgain && !this.#closing.signal.aborted) {
      this.#isDueAgain = false
      await this.#sendDue()
    }
  }

  async #sendDue(): Promise<void> {
    const { deliveries, clock } = this.#parts
    const list = () => {
      this.#recordedLately.clear()
      return deliveries.listDue(clock.now(), webhookLimits.requestsAtOnce * 2)
    }
    let due = await list()
    if (due.length === 0) return
    if (!this.#holdsLease()) {
      if (!(await this.#takeLease())) return
      // Whoever held the lease before may have sent some of it in between.
      due = await list()
      // By a store that takes long, the lease may be over, and another one's. The next round takes it anew.
      if (!this.#holdsLease()) return
    }
    for (const one of due) this.#begin(one)
  }

  #holdsLease(): boolean {
    return this.#parts.clock.now() < this.#leaseUntil - renewBeforeMs
  }

  async #takeLease(): Promise<boolean> {
    const { leases, clock } = this.#parts
    const now = clock.now()
    const isHeld = await leases.take(lease, leaseMs)
    this.#leaseUntil = isHeld ? now + leaseMs : 0
    return isHeld
  }

  #begin(delivery: DueDelivery): void {
    const { webhookID, sandboxID } = delivery
    const key = `${webhookID} ${sandboxID}`
    const open = this.#perWebhook.get(webhookID) ?? 0
    // It was listed before its outcome was recorded.
    if (this.#recordedLately.has(delivery.deliveryID)) return
    const isFull = open >= webhookLimits.requestsAtOnce || this.#sending.size >= mostRequests
    if (isFull || this.#sending.has(key) || this.#closing.signal.aborted) return
    this.#perWebhook.set(webhookID, open + 1)
    const ended = this.#deliver(delivery)
      .catch((error) => {
        const { deliveryID } = delivery
        this.#parts.log.error({ webhookID, deliveryID, err: error }, 'A delivery could not be recorded.')
        return false
      })
      .then((isRecorded) => {
        this.#sending.delete(key)
        const left = this.#perWebhook.get(webhookID)! - 1
        if (left > 0) this.#perWebhook.set(webhookID, left)
        else this.#perWebhook.delete(webhookID)
        // The next event of the sandbox may go now.
        if (isRecorded) void this.run().catch(() => {})
      })
    this.#sending.set(key, ended)
  }

  /** False: Warren stops, and nothing is known of the attempt. */
  async #deliver(delivery: DueDelivery): Promise<boolean> {
    const { deliveries, clock, log } = this.#parts
    const outcome = await this.#attempt(delivery)
    if (!outcome) return false
    const now = clock.now()
    const isOver = now - delivery.createdAt >= giveUpAfterMs
    const status = outcome.error === null ? 'delivered' : isOver ? 'failed' : 'pending'
    const nextAt = now + pauseAfter(delivery.attempts + 1)
    const attempt: Attempt = { ...outcome, status, at: now, nextAt }
    await retryPassing(clock, () => deliveries.record(delivery, attempt))
    this.#recordedLately.add(delivery.deliveryID)
    if (status === 'failed') {
      const { webhookID, deliveryID } = delivery
      log.warn({ webhookID, deliveryID, error: outcome.error }, 'A delivery to a webhook was given up.')
    }
    return true
  }

  async #attempt(delivery: DueDelivery): Promise<Pick<Attempt, 'httpStatus' | 'error'> | undefined> {
    const { sender, clock } = this.#parts
    const words = `There was no answer within ${requestTimeoutMs / 1000} s.`
    const timeout = deadlineSignal(clock, requestTimeoutMs, () => new Error(words))
    try {
      const request = this.#requestOf(delivery)
      const httpStatus = await sender.send(request, AbortSignal.any([this.#closing.signal, timeout.signal]))
      const hasArrived = httpStatus >= 200 && httpStatus < 300
      return { httpStatus, error: hasArrived ? null : `The receiver answered with status ${httpStatus}.` }
    } catch (error) {
      if (this.#closing.signal.aborted) return undefined
      return { httpStatus: null, error: timeout.signal.aborted ? words : errorText(error) }
    } finally {
      timeout.cancel()
    }
  }

  #requestOf({ deliveryID, webhookID, teamID, url, body, secret }: DueDelivery): WebhookRequestOptions {
    const opened = this.#parts.vault.open(placeOfSecret({ teamID, webhookID }), secret)
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'warren-webhooks/1',
      'e2b-webhook-id': webhookID,
      'e2b-delivery-id': deliveryID,
      'e2b-signature-version': 'v1',
      'e2b-signature': signatureOf(opened, body),
    }
    return { url, headers, body }
  }
}
