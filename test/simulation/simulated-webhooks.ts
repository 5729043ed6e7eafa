/** The webhooks of one life of a process, over parked calls, and the receivers, which are the same for all processes. */
import type { SecretVault } from '../../src/core/secret/vault.ts'
import {
  WebhookDispatcher,
  type WebhookRequestOptions,
  type WebhookSender,
} from '../../src/core/webhook/dispatcher.ts'
import { WebhookService } from '../../src/core/webhook/service.ts'
import type { Clock } from '../../src/lib/clock.ts'
import type { Log } from '../../src/lib/log.ts'
import type { Stores } from '../../src/store/stores.ts'
import type { ReceiverAnswer } from './plan.ts'
import type { Random } from './random.ts'
import type { SimulatedNode } from './simulated-node.ts'
import type { WebhookWatch } from './webhook-watch.ts'

export type ReceiverParts = {
  watch: WebhookWatch
  /** How likely each answer other than 200 is. */
  answers: Partial<Record<ReceiverAnswer, number>>
  random: Random
  /** False once the history is over. */
  areFaultsOn: () => boolean
}

/** All receivers of all teams. */
export class SimulatedReceivers implements WebhookSender {
  readonly #parts: ReceiverParts

  constructor(parts: ReceiverParts) {
    this.#parts = parts
  }

  async send({ url, headers, body }: WebhookRequestOptions, signal: AbortSignal): Promise<number> {
    const { watch, random, answers, areFaultsOn } = this.#parts
    // It was called off before it left.
    if (signal.aborted) throw signal.reason
    watch.checkReceived(url, headers, body)
    const drawn = (['error', 'never'] as const).find((answer) => random.chance(answers[answer] ?? 0))
    if (drawn === 'never' && areFaultsOn())
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    if (drawn === 'error' && areFaultsOn()) return 500
    watch.noteAccepted(headers['e2b-delivery-id']!)
    return 204
  }
}

export type SimulatedWebhookParts = {
  node: SimulatedNode
  /** As they are; what the dispatcher calls of them goes through `wrap`. */
  stores: Stores
  wrap: <T extends object>(part: string, name: string, target: T) => T
  receivers: SimulatedReceivers
  watch: WebhookWatch
  vault: SecretVault
  clock: Clock
  log: Log
}

export function joinSimulatedWebhooks(parts: SimulatedWebhookParts) {
  const { node, stores, wrap, watch, receivers, ...rest } = parts
  const { process } = node
  // A change that takes effect is reported at once, even if its answer is lost.
  const watched = {
    list: stores.deliveries.list.bind(stores.deliveries),
    prune: stores.deliveries.prune.bind(stores.deliveries),
    listDue(...options: Parameters<Stores['deliveries']['listDue']>) {
      watch.noteLook(process)
      return stores.deliveries.listDue(...options)
    },
    async record(...options: Parameters<Stores['deliveries']['record']>) {
      await stores.deliveries.record(...options)
      watch.noteRecorded(process, options[0].deliveryID)
    },
  }
  const parked = wrap<WebhookSender>('receiver', 'receiver', receivers)
  const sender: WebhookSender = {
    send(request, signal) {
      watch.checkBegin(node, request.headers['e2b-webhook-id']!, request.headers['e2b-delivery-id']!)
      return parked.send(request, signal)
    },
  }
  const own = {
    webhooks: wrap('store', 'webhooks', stores.webhooks),
    deliveries: wrap('store', 'deliveries', watched),
    leases: wrap('store', 'leases', stores.leases),
  }
  return {
    service: new WebhookService({ ...own, ...rest, isClosed: () => false }),
    dispatcher: new WebhookDispatcher({ ...own, ...rest, sender }),
  }
}
