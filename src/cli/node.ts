import type { ForgottenNode, Node } from '../contract/rest/node.ts'
import type { AdminClient } from './admin-client.ts'
import { asksForHelp, parseCommand, takeWords, unknownVerb } from './arguments.ts'
import { asJson, table } from './output.ts'

const command = 'warren node'
const usage = `Usage:
  warren node list [--json]
  warren node drain NODE [--json]
  warren node undrain NODE [--json]
  warren node forget NODE [--json]

NODE is the id of a node, or the beginning of one.
drain    NODE gets no new sandboxes; what can move goes on elsewhere, the rest where it is.
undrain  NODE gets new sandboxes again.
forget   NODE does not come back: what ran on it ends as lost, and so does what only its disk had.`

/** Gives the text to print. `connect` is called only when the arguments are right. */
export async function nodeCommand(
  args: readonly string[],
  connect: () => Promise<AdminClient>,
): Promise<string> {
  if (asksForHelp(args)) return usage
  const [verb, ...rest] = args
  const { words, json } = parseCommand(rest, [], command)
  if (verb === 'list') {
    takeWords(words, [], command)
    return show(await (await connect()).listNodes(), json)
  }
  if (verb !== 'drain' && verb !== 'undrain' && verb !== 'forget') {
    throw unknownVerb(verb, 'list, drain, undrain or forget', command)
  }
  const [word] = takeWords(words, ['NODE'], command)
  const client = await connect()
  const { id } = await client.findNode(word!)
  if (verb === 'forget') return showForgotten(id, await client.forgetNode(id), json)
  const status = verb === 'drain' ? 'draining' : 'ready'
  await client.setNodeStatus(id, status)
  if (json) return asJson({ id, status })
  return verb === 'drain' ? `Node ${id} gets no new sandboxes.` : `Node ${id} gets new sandboxes again.`
}

function show(nodes: Node[], json: boolean): string {
  if (json) return asJson(nodes)
  const gigabytes = (bytes: number) => `${(bytes / 1024 ** 3).toFixed(1)} GiB`
  const rows = nodes.map(({ id, status, sandboxCount, version, metrics }) => [
    ...[id, status, String(sandboxCount), `${metrics.cpuPercent} % of ${metrics.cpuCount}`],
    ...[`${gigabytes(metrics.memoryUsedBytes)} of ${gigabytes(metrics.memoryTotalBytes)}`, version],
  ])
  return table(['NODE', 'STATUS', 'SANDBOXES', 'CPU', 'MEMORY', 'VERSION'], rows)
}

function showForgotten(id: string, { sandboxes, builds, volumes }: ForgottenNode, json: boolean): string {
  if (json) return asJson({ id, sandboxes, builds, volumes })
  return `Node ${id} is forgotten; ${sandboxes} sandboxes, ${builds} builds and ${volumes} volumes were lost with it.`
}
