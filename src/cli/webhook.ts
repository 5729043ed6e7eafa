import type { Webhook } from '../contract/rest/event.ts'
import { asksForHelp, parseCommand, takeWords, UsageError, unknownVerb } from './arguments.ts'
import { asJson, table } from './output.ts'
import type { TeamClient } from './team-client.ts'

const command = 'warren webhook'
const usage = `Usage:
  warren webhook list [--json]
  warren webhook create NAME URL --secret SECRET [--event TYPE]… [--json]
  warren webhook delete WEBHOOK
  warren webhook deliveries WEBHOOK [--json]

TYPE is created, updated, paused, resumed, checkpointed or killed; without any, all of them are sent. SECRET signs what is
sent. WEBHOOK is a webhook's id. "deliveries" shows the last 100 that were tried.

E2B_API_KEY, with E2B_API_URL or E2B_DOMAIN, chooses server and team; else it is the server on this machine.`

const types = ['created', 'updated', 'paused', 'resumed', 'checkpointed', 'killed']

/** Gives the text to print. `connect` is called only when the arguments are right. */
export async function webhookCommand(
  args: readonly string[],
  connect: () => Promise<TeamClient>,
): Promise<string> {
  if (asksForHelp(args)) return usage
  const [verb, ...rest] = args
  const { words, values, lists, json } = parseCommand(rest, ['secret'], command, { lists: ['event'] })
  if (verb === 'list') {
    takeWords(words, [], command)
    return show(await (await connect()).listWebhooks(), json)
  }
  if (verb === 'create') {
    const [name, url] = takeWords(words, ['NAME', 'URL'], command)
    const signatureSecret = values.secret
    if (!signatureSecret) throw new UsageError('--secret SECRET is missing.', command)
    const events = eventsOf(lists.event ?? [])
    const made = await (await connect()).createWebhook({ name: name!, url: url!, events, signatureSecret })
    return json
      ? asJson(made)
      : `The webhook ${made.name} (${made.id}) gets ${made.events.length} types of events.`
  }
  if (verb === 'delete') {
    const [webhookID] = takeWords(words, ['WEBHOOK'], command)
    await (await connect()).deleteWebhook(webhookID!)
    return json ? asJson({ id: webhookID, deleted: true }) : `The webhook ${webhookID} is deleted.`
  }
  if (verb === 'deliveries') {
    const [webhookID] = takeWords(words, ['WEBHOOK'], command)
    return showDeliveries(await (await connect()).listDeliveries(webhookID!), json)
  }
  throw unknownVerb(verb, 'list, create, delete or deliveries', command)
}

function eventsOf(wanted: readonly string[]): string[] {
  const unknown = wanted.find((type) => !types.includes(type))
  if (unknown !== undefined) {
    throw new UsageError(`--event is '${unknown}', but must be one of ${types.join(', ')}.`, command)
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
