import type { Node } from '../contract/rest/node.ts'
import type { AdminClient } from './admin-client.ts'
import { asJson, counted, table } from './output.ts'
import type { Given, VerbTable } from './verbs.ts'

type Connect = () => Promise<AdminClient>

export const nodeVerbs: VerbTable<Connect> = {
  name: 'node',
  does: 'machines of the cluster',
  notes: 'NODE is the id of a node, the beginning of one, or the address of the machine.',
  verbs: {
    list: {
      does: 'Shows the nodes with their use of CPU and memory.',
      run: async ({ json }, connect) => show(await (await connect()).listNodes(), json),
    },
    drain: {
      does: 'Gives a node no new sandboxes.',
      about: 'Sandboxes that can move continue on other nodes, the others stay.',
      words: ['NODE'],
      run: (given, connect) => setStatus(given, connect, 'draining'),
    },
    undrain: {
      does: 'Gives a node new sandboxes again.',
      words: ['NODE'],
      run: (given, connect) => setStatus(given, connect, 'ready'),
    },
    forget: {
      does: 'Removes a node that does not come back.',
      about: 'What ran on it ends as lost, and so does what only its disk had.',
      words: ['NODE'],
      run: forget,
    },
  },
}

async function setStatus(
  { words, json }: Given,
  connect: Connect,
  status: 'draining' | 'ready',
): Promise<string> {
  const client = await connect()
  const { id } = await client.findNode(words[0]!)
  await client.setNodeStatus(id, status)
  if (json) return asJson({ id, status })
  return status === 'draining' ? `Node ${id} gets no new sandboxes.` : `Node ${id} gets new sandboxes again.`
}

async function forget({ words, json }: Given, connect: Connect): Promise<string> {
  const client = await connect()
  const { id } = await client.findNode(words[0]!)
  const lost = await client.forgetNode(id)
  if (json) return asJson({ id, ...lost })
  const { sandboxes, builds, volumes } = lost
  const counts = [
    sandboxes === 1 ? '1 sandbox' : `${sandboxes} sandboxes`,
    counted(builds, 'build'),
    counted(volumes, 'volume'),
  ].join(', ')
  const message = `Node ${id} is forgotten; lost with it: ${counts}.`
  if (volumes === 0) return message
  return `${message}\nIf its disk comes back, \`warren volume recover\` gives volumes back; \`warren volume lost\` lists them.`
}

function show(nodes: Node[], json: boolean): string {
  if (json) return asJson(nodes)
  const gigabytes = (bytes: number) => `${(bytes / 1024 ** 3).toFixed(1)} GiB`
  const rows = nodes.map(({ id, address = '', status, sandboxCount, version, metrics }) => [
    ...[id, status, String(sandboxCount), `${metrics.cpuPercent} % of ${metrics.cpuCount}`],
    ...[`${gigabytes(metrics.memoryUsedBytes)} of ${gigabytes(metrics.memoryTotalBytes)}`, version, address],
  ])
  const problems = nodes.flatMap(({ id, problem }) =>
    problem === undefined ? [] : [`PROBLEM ${id}: ${problem}`],
  )
  const listed = table(['NODE', 'STATUS', 'SANDBOXES', 'CPU', 'MEMORY', 'VERSION', 'ADDRESS'], rows)
  return [listed, ...problems].join('\n')
}
