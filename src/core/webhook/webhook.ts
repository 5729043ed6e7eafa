/** What a webhook is, what may be in one, and how its deliveries are tried again. */
import { isIP } from 'node:net'
import { AppError } from '../../lib/app-error.ts'
import type { EventType } from '../event/event.ts'
import type { Place, SealedValue } from '../secret/vault.ts'

/** What clients are shown of a webhook; its secret is not part of it. */
export type Webhook = {
  webhookID: string
  teamID: string
  name: string
  url: string
  enabled: boolean
  /** The types of events that it is sent. */
  events: readonly EventType[]
  /** Since when deliveries were given up without one that arrived. */
  failingSince: number | null
  /** Why the last attempt failed, if it did. */
  lastError: string | null
  createdAt: number
}

export type DeliveryStatus = 'pending' | 'delivered' | 'failed'

/** One event on its way to one webhook. */
export type Delivery = {
  deliveryID: string
  webhookID: string
  eventID: string
  type: EventType
  sandboxID: string
  status: DeliveryStatus
  attempts: number
  createdAt: number
  /** When the next attempt is due, while it is pending. */
  nextAt: number
  endedAt: number | null
  /** The HTTP status of the last answer, if there was one. */
  lastStatus: number | null
  lastError: string | null
}

export type DueDelivery = Pick<
  Delivery,
  'deliveryID' | 'webhookID' | 'sandboxID' | 'attempts' | 'createdAt'
> & { teamID: string; body: string; url: string; secret: SealedValue }

/** How an attempt ended. `status` is that of the delivery from now on. */
export type Attempt = {
  status: DeliveryStatus
  at: number
  /** For what stays pending. */
  nextAt: number
  httpStatus: number | null
  error: string | null
}

export const webhookLimits = {
  perTeam: 10,
  nameLength: 128,
  urlLength: 2048,
  secretBytes: 1024,
  /** Requests to one receiver at a time: a slow one holds up nobody else. */
  requestsAtOnce: 4,
  /** Deliveries that are remembered of one webhook, those that wait included. */
  deliveries: 10_000,
} as const

/** After this time a delivery is given up. */
export const giveUpAfterMs = 24 * 3_600_000
const firstPauseMs = 5000
const longestPauseMs = 3_600_000

/** Each pause is twice the one before, until they take an hour. */
export function pauseAfter(attempts: number): number {
  return Math.min(firstPauseMs * 2 ** Math.min(attempts - 1, 30), longestPauseMs)
}

export const placeOfSecret = ({ teamID, webhookID }: Pick<Webhook, 'teamID' | 'webhookID'>): Place => ({
  identity: ['warren webhook', teamID, webhookID],
  name: `The secret of the webhook ${webhookID}`,
  remedy: 'give the webhook a new signatureSecret',
})

export const invalidWebhook = (why: string): AppError =>
  new AppError('invalid_argument', `Invalid webhook: ${why}`)

/** Only what can be read off the text: where its name leads is checked at every delivery. */
export function checkUrl(text: string, isClosed: (address: string) => boolean): void {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw invalidWebhook('its url must begin with http:// or https://')
  }
  if (text.length > webhookLimits.urlLength) {
    throw invalidWebhook(`its url is longer than ${webhookLimits.urlLength} characters`)
  }
  if (url.username || url.password) {
    throw invalidWebhook('its url holds a user or a password; check the signature of events in their place')
  }
  if (url.hostname.startsWith('[')) {
    throw invalidWebhook('its url holds an IPv6 address; use a name or an IPv4 address')
  }
  if (isIP(url.hostname) && isClosed(url.hostname)) throw invalidWebhook(closedAddress)
}

/** The same words wherever a name leads, so that nobody learns the addresses of an internal network by them. */
export const closedAddress =
  'its host is on an internal network; use a public address, or ask the operator to open that network ' +
  '(WARREN_ALLOW_PRIVATE_EGRESS)'

export function checkSecret(secret: string): void {
  if (secret === '') throw invalidWebhook('its signatureSecret is empty')
  if (Buffer.byteLength(secret) > webhookLimits.secretBytes || !secret.isWellFormed()) {
    throw invalidWebhook(`its signatureSecret is longer than ${webhookLimits.secretBytes} bytes of UTF-8`)
  }
}
