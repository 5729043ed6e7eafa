/**
 * Sends events to webhooks at least once. Events of one sandbox are sent in order: the next one is sent only
 * when the previous one was delivered or given up. Of several Warrens on one database, only the holder of the
 * lease sends.
 */
import { errorText } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { deadlineSignal } from '../../lib/deadline.ts'
import type { Log } from '../../lib/log.ts'
import { RetryDelays } from '../../lib/retry-delays.ts'
import { retryPassing } from '../../lib/retry-passing.ts'
import type { LeaseStore } from '../ports/lease-store.ts'
import type { SecretVault } from '../secret/vault.ts'
import { signatureOf } from './signature.ts'
import {
  type Attempt,
  type DueDelivery,
  giveUpAfterMs,
  pauseAfter,
  secretOwnerOf,
  webhookLimits,
} from './webhook.ts'
import type { DeliveryStore } from './webhook-store.ts'

/** A request that is not answered within this time has failed. */
export const requestTimeoutMs = 10_000
const lease = 'webhooks'
const leaseMs = 60_000
/** Nothing is sent on a lease that could end before the answer arrives. */
const renewBeforeMs = 30_000
/**
 * Limit for the whole Warren. It bounds the number of sockets, far above the need of well-behaved receivers.
 */
const maxRequests = 256

export type WebhookRequestOptions = { url: string; headers: Record<string, string>; body: string }

export interface WebhookSender {
  /** Resolves with the HTTP status of the answer. Rejects with a message that may be shown to the team. */
  send(request: WebhookRequestOptions, signal: AbortSignal): Promise<number>
}

type WebhookDispatcherParts = {
  deliveries: DeliveryStore
  leases: LeaseStore
  vault: SecretVault
  sender: WebhookSender
  clock: Clock
  log: Log
}

export class WebhookDispatcher {
  readonly #parts: WebhookDispatcherParts
  /** Deliveries under way, by webhook and sandbox. */
  readonly #sending = new Map<string, Promise<void>>()
  readonly #perWebhook = new Map<string, number>()
  /** Deliveries whose outcome was recorded since the due ones were last listed. */
  readonly #recordedLately = new Set<string>()
  /** Deliveries that were sent, but whose outcome could not be recorded, so that they are still listed as due. */
  readonly #unrecorded = new RetryDelays({ firstMs: 1000, longestMs: 60_000 })
  readonly #closing = new AbortController()
  #leaseUntil = 0
  /** A timer has told that the lease is about to end, which holds even if the machine's clock was set back. */
  #isLeaseOver = false
  #stopLeaseTimer: () => void = () => {}
  #round: Promise<void> | undefined
  #isDueAgain = false

  constructor(parts: WebhookDispatcherParts) {
    this.#parts = parts
  }

  /** Starts to send the due deliveries. Resolves when they are started, not when they have arrived. */
  run(): Promise<void> {
    this.#isDueAgain = true
    this.#round ??= this.#rounds().finally(() => {
      this.#round = undefined
    })
    return this.#round
  }

  /** Aborts the requests under way. The next holder of the lease sends them again. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('Warren stops'))
    this.#stopLeaseTimer()
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
    if (!this.#hasLease()) {
      if (!(await this.#acquireLease())) return
      // The previous holder of the lease may have sent some of them meanwhile.
      due = await list()
      // If the store was slow, the lease may have ended and another Warren may hold it. The next round takes
      // it again.
      if (!this.#hasLease()) return
    }
    for (const one of due) this.#begin(one)
  }

  #hasLease(): boolean {
    return !this.#isLeaseOver && this.#parts.clock.now() < this.#leaseUntil - renewBeforeMs
  }

  async #acquireLease(): Promise<boolean> {
    const { leases, clock } = this.#parts
    const now = clock.now()
    // Both begin before the database counts, so that they end before the lease does.
    this.#stopLeaseTimer()
    this.#isLeaseOver = false
    this.#stopLeaseTimer = clock.after(leaseMs - renewBeforeMs, () => {
      this.#isLeaseOver = true
    })
    const isAcquired = await leases.acquire(lease, leaseMs)
    this.#leaseUntil = isAcquired ? now + leaseMs : 0
    return isAcquired
  }

  #begin(delivery: DueDelivery): void {
    const { webhookID, sandboxID, deliveryID } = delivery
    const { clock, log } = this.#parts
    const key = `${webhookID} ${sandboxID}`
    const open = this.#perWebhook.get(webhookID) ?? 0
    // The delivery was listed before its outcome was recorded.
    if (this.#recordedLately.has(deliveryID) || this.#unrecorded.mustWait(deliveryID, clock.now())) return
    const isFull = open >= webhookLimits.requestsAtOnce || this.#sending.size >= maxRequests
    if (isFull || this.#sending.has(key) || this.#closing.signal.aborted) return
    this.#perWebhook.set(webhookID, open + 1)
    const ended = this.#deliver(delivery)
      .catch((error) => {
        this.#unrecorded.noteFailure(deliveryID, clock.now())
        log.error({ webhookID, deliveryID, err: error }, 'A delivery could not be recorded.')
        return false
      })
      .then((isRecorded) => {
        this.#sending.delete(key)
        const left = this.#perWebhook.get(webhookID)! - 1
        if (left > 0) this.#perWebhook.set(webhookID, left)
        else this.#perWebhook.delete(webhookID)
        // The sandbox's next event may be sent now.
        if (isRecorded) void this.run().catch(() => {})
      })
    this.#sending.set(key, ended)
  }

  /** Returns false if Warren is stopping, so that the outcome of the attempt is unknown. */
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
    this.#unrecorded.noteSuccess(delivery.deliveryID)
    this.#recordedLately.add(delivery.deliveryID)
    if (status === 'failed') {
      const { webhookID, deliveryID } = delivery
      log.warn(
        { webhookID, deliveryID, error: outcome.error },
        'A delivery to a webhook failed for good and is not tried again.',
      )
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
    const opened = this.#parts.vault.open(secretOwnerOf({ teamID, webhookID }), secret)
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
