/** A webhook, its limits, and the retries of its deliveries. */
import { isIP } from 'node:net'
import { AppError } from '../../lib/app-error.ts'
import { delayAfter } from '../../lib/retry-delays.ts'
import type { EventType } from '../event/event.ts'
import type { SealedValue, SecretOwner } from '../secret/vault.ts'

/** A webhook as clients see it, without its secret. */
export type Webhook = {
  webhookID: string
  teamID: string
  name: string
  url: string
  enabled: boolean
  /** The types of events that it receives. */
  events: readonly EventType[]
  /** Since when deliveries have been given up with no successful one in between. */
  failingSince: number | null
  /** Why the last attempt failed; null if it succeeded. */
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
  /** When the next attempt of a pending delivery is due. */
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

/** The end of an attempt. `status` is the new status of the delivery. */
export type Attempt = {
  status: DeliveryStatus
  at: number
  /** Used only if the delivery stays pending. */
  nextAt: number
  httpStatus: number | null
  error: string | null
}

export const webhookLimits = {
  perTeam: 10,
  nameLength: 128,
  urlLength: 2048,
  secretBytes: 1024,
  /** Maximum number of concurrent requests to one receiver, so that a slow one delays nobody else. */
  requestsAtOnce: 4,
  /** Maximum number of deliveries to store for one webhook, including waiting ones. */
  deliveries: 10_000,
} as const

/** A delivery that did not succeed within this time is given up. */
export const giveUpAfterMs = 24 * 3_600_000
const firstPauseMs = 5000
const longestPauseMs = 3_600_000

/** Each pause is twice as long as the previous one, up to an hour. */
export function pauseAfter(attempts: number): number {
  return delayAfter(attempts, { firstMs: firstPauseMs, longestMs: longestPauseMs })
}

export const secretOwnerOf = ({ teamID, webhookID }: Pick<Webhook, 'teamID' | 'webhookID'>): SecretOwner => ({
  identity: ['warren webhook', teamID, webhookID],
  name: `The secret of the webhook ${webhookID}`,
  remedy: 'give the webhook a new signatureSecret',
})

export const invalidWebhook = (why: string): AppError =>
  new AppError('invalid_argument', `Invalid webhook: ${why}`)

/** Checks only the text of the URL. Each delivery checks the address of the host. */
export function checkUrl(text: string, isClosed: (address: string) => boolean): void {
  const url = URL.parse(text)
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw invalidWebhook('its url must begin with http:// or https://')
  }
  if (text.length > webhookLimits.urlLength) {
    throw invalidWebhook(`its url is longer than ${webhookLimits.urlLength} characters`)
  }
  if (url.username || url.password) {
    throw invalidWebhook('its url holds a user or a password; check the signature of events instead')
  }
  if (url.hostname.startsWith('[')) {
    throw invalidWebhook('its url holds an IPv6 address; use a name or an IPv4 address')
  }
  if (isIP(url.hostname) && isClosed(url.hostname)) throw invalidWebhook(closedAddress)
}

/** The same message for every name, so that nobody can find out the addresses of an internal network. */
export const closedAddress =
  'its host is on an internal network; use a public address, or ask the operator to open that network ' +
  '(WARREN_ALLOW_PRIVATE_EGRESS)'

export function checkSecret(secret: string): void {
  if (secret === '') throw invalidWebhook('its signatureSecret is empty')
  if (Buffer.byteLength(secret) > webhookLimits.secretBytes || !secret.isWellFormed()) {
    throw invalidWebhook(`its signatureSecret is longer than ${webhookLimits.secretBytes} bytes of UTF-8`)
  }
}
