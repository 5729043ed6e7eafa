import type { Webhook } from '../contract/rest/event.ts'
import { UsageError } from './arguments.ts'
import { asJson, counted, table } from './output.ts'
import { type TeamClient, whichServer } from './team-client.ts'
import type { Given, VerbTable } from './verbs.ts'

type Connect = () => Promise<TeamClient>

const types = ['created', 'updated', 'paused', 'resumed', 'checkpointed', 'killed']

export const webhookVerbs: VerbTable<Connect> = {
  name: 'webhook',
  does: 'receivers of events',
  notes: `WEBHOOK is a webhook's id. ${whichServer}`,
  verbs: {
    list: {
      does: 'Shows the webhooks and whether they work.',
      run: async ({ json }, connect) => show(await (await connect()).listWebhooks(), json),
    },
    create: {
      does: 'Has events of sandboxes sent to a URL.',
      options: {
        secret: 'signs what is sent',
        event: `${types.join(', ')} (default: all of them)`,
      },
      words: ['NAME', 'URL'],
      texts: { secret: 'SECRET' },
      needs: ['secret'],
      lists: { event: 'TYPE' },
      run: create,
    },
    delete: { does: 'Deletes a webhook.', words: ['WEBHOOK'], run: remove },
    deliveries: {
      does: 'Shows the last 100 deliveries that were tried.',
      words: ['WEBHOOK'],
      run: async ({ words: [id], json }, connect) =>
        showDeliveries(await (await connect()).listDeliveries(id!), json),
    },
  },
}

async function create({ words: [name, url], values, lists, json }: Given, connect: Connect): Promise<string> {
  const events = eventsOf(lists.event ?? [])
  const wanted = { name: name!, url: url!, events, signatureSecret: values.secret! }
  const made = await (await connect()).createWebhook(wanted)
  if (json) return asJson(made)
  return `The webhook ${made.name} (${made.id}) gets ${counted(made.events.length, 'type')} of events.`
}

async function remove({ words: [webhookID], json }: Given, connect: Connect): Promise<string> {
  await (await connect()).deleteWebhook(webhookID!)
  return json ? asJson({ id: webhookID, deleted: true }) : `The webhook ${webhookID} is deleted.`
}

function eventsOf(wanted: readonly string[]): string[] {
  const unknown = wanted.find((type) => !types.includes(type))
  if (unknown !== undefined) {
    throw new UsageError(`--event is '${unknown}', but must be one of ${types.join(', ')}.`, 'warren webhook')
  }
  return (wanted.length > 0 ? wanted : types).map((type) => `sandbox.lifecycle.${type}`)
}

function show(webhooks: Webhook[], json: boolean): string {
  if (json) return asJson(webhooks)
  if (webhooks.length === 0) return 'There are no webhooks.'
  return table(
    ['WEBHOOK', 'NAME', 'URL', 'EVENTS', 'STATE'],
    webhooks.map(({ id, name, url, events, enabled, failingSince, lastError }) => [
      ...[id, name, url, events.map((event) => event.split('.').at(-1)).join(',')],
      failingSince ? `failing since ${failingSince}: ${lastError ?? ''}` : enabled ? 'works' : 'off',
    ]),
  )
}

function showDeliveries(
  deliveries: Awaited<ReturnType<TeamClient['listDeliveries']>>,
  json: boolean,
): string {
  if (json) return asJson(deliveries)
  if (deliveries.length === 0) return 'Nothing was sent yet.'
  return table(
    ['CREATED', 'TYPE', 'SANDBOX', 'STATUS', 'TRIES', 'LAST ANSWER'],
    deliveries.map(({ createdAt, type, sandboxID, status, attempts, lastStatus, lastError }) => [
      ...[createdAt, type.split('.').at(-1)!, sandboxID, status, String(attempts)],
      lastError ?? String(lastStatus ?? ''),
    ]),
  )
}
