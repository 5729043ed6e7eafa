import type { SecretVault } from '../core/secret/vault.ts'
import { WebhookDispatcher } from '../core/webhook/dispatcher.ts'
import { WebhookService } from '../core/webhook/service.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import type { Stores } from '../store/stores.ts'
import { HttpWebhookSender, type HttpWebhookSenderParts } from '../webhooks/sender.ts'

export function openWebhooks(
  parts: HttpWebhookSenderParts & {
    stores: Pick<Stores, 'webhooks' | 'deliveries' | 'leases'>
    vault: SecretVault
    clock: Clock
    log: Log
  },
) {
  const { stores, ...rest } = parts
  return {
    service: new WebhookService({ ...stores, ...rest }),
    dispatcher: new WebhookDispatcher({ ...stores, ...rest, sender: new HttpWebhookSender(rest) }),
  }
}
