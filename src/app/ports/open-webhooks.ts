import type { SecretVault } from '../../core/secret/vault.ts'
import { WebhookDispatcher } from '../../core/webhook/dispatcher.ts'
import { WebhookService } from '../../core/webhook/service.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Stores } from '../../store/stores.ts'
import { HttpWebhookSender, type HttpWebhookSenderParts } from '../../webhooks/sender.ts'

export function openWebhooks(
  parts: HttpWebhookSenderParts & {
    stores: Pick<Stores, 'webhooks' | 'deliveries' | 'leases'>
    vault: SecretVault
    clock: Clock
    log: Log
  },
) {
  const { stores, vault, isClosed, clock, log } = parts
  return {
    service: new WebhookService({
      webhooks: stores.webhooks,
      deliveries: stores.deliveries,
      vault,
      isClosed,
      clock,
    }),
    dispatcher: new WebhookDispatcher({
      deliveries: stores.deliveries,
      leases: stores.leases,
      vault,
      clock,
      log,
      sender: new HttpWebhookSender(parts),
    }),
  }
}
