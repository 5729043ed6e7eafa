/** Tools for the lifecycle of sandboxes. */
import { Type } from 'typebox'
import type { ListedSandbox, Sandbox, SandboxDetail } from '../contract/rest/sandbox.ts'
import { AppError } from '../lib/app-error.ts'
import { SandboxID, type Tool, tool } from './tool.ts'
import type { WarrenClient } from './warren-client.ts'

const lifetimeSeconds = Type.Integer({
  minimum: 1,
  default: 3600,
  description: 'Seconds until the sandbox is paused; the next request wakes it.',
})
const maxListed = 100

const createSandbox = tool({
  name: 'create_sandbox',
  description:
    'Create a sandbox: a Linux machine of your own, isolated from everything else, with bash, Python, Node, git and sudo. ' +
    'Returns its id. Kill it when it is no longer needed.',
  input: Type.Object({
    template: Type.String({
      default: 'base',
      description:
        "What it starts from: 'base', 'code-interpreter-v1' for run_code, or a template of the team.",
    }),
    lifetimeSeconds,
    envs: Type.Optional(
      Type.Record(Type.String(), Type.String(), { description: 'Variables for all commands.' }),
    ),
    metadata: Type.Optional(
      Type.Record(Type.String(), Type.String(), { description: 'Labels that lists show.' }),
    ),
    allowInternet: Type.Boolean({ default: true }),
  }),
  async run(client, { template, lifetimeSeconds: timeout, envs, metadata, allowInternet }, signal) {
    const body = {
      templateID: template,
      timeout,
      autoPause: true,
      autoResume: { enabled: true },
      allow_internet_access: allowInternet,
      envVars: envs ?? {},
      metadata: metadata ?? {},
    }
    const { sandboxID } = await client.rest<Sandbox>('POST', '/v2/sandboxes', body, signal)
    return `Created the sandbox ${sandboxID} from '${template}'. It runs for ${timeout} seconds and is then paused.`
  },
})

const listSandboxes = tool({
  name: 'list_sandboxes',
  description: 'List the sandboxes that run or are paused, newest first.',
  input: Type.Object({}),
  async run(client, _, signal) {
    const path = `/v2/sandboxes?limit=${maxListed}`
    const found = await client.rest<ListedSandbox[]>('GET', path, undefined, signal)
    if (found.length === 0) return 'There are no sandboxes.'
    return found
      .map(({ sandboxID, alias, templateID, state, endAt, metadata = {} }) => {
        const labels = Object.entries(metadata).map(([name, value]) => ` ${name}=${value}`)
        return `${sandboxID} ${state}, from '${alias ?? templateID}', until ${endAt}${labels.join('')}`
      })
      .join('\n')
  },
})

const pauseSandbox = tool({
  name: 'pause_sandbox',
  description: 'Pause a sandbox: its files and processes stay, and it uses no CPU until it is resumed.',
  input: Type.Object({ sandboxID: SandboxID }),
  async run(client, { sandboxID }, signal) {
    await client.rest('POST', `${pathOf(sandboxID)}/pause`, {}, signal)
    return `The sandbox ${sandboxID} is paused.`
  },
})

const resumeSandbox = tool({
  name: 'resume_sandbox',
  description: 'Resume a paused sandbox, or give one that runs more time.',
  input: Type.Object({ sandboxID: SandboxID, lifetimeSeconds }),
  async run(client, { sandboxID, lifetimeSeconds: timeout }, signal) {
    await client.rest('POST', `/v2${pathOf(sandboxID)}/connect`, { timeout }, signal)
    return `The sandbox ${sandboxID} runs, for at least ${timeout} seconds more.`
  },
})

const forkSandbox = tool({
  name: 'fork_sandbox',
  description:
    'Make copies of a running sandbox as it is now, each as a separate sandbox. The original keeps running.',
  input: Type.Object({
    sandboxID: SandboxID,
    count: Type.Integer({ minimum: 1, maximum: 20, default: 1 }),
    lifetimeSeconds,
  }),
  async run(client, { sandboxID, count, lifetimeSeconds: timeout }, signal) {
    type Fork = { sandbox?: Sandbox; error?: { message: string } }
    const forks = await client.rest<Fork[]>('POST', `${pathOf(sandboxID)}/fork`, { count, timeout }, signal)
    const ids = forks.flatMap(({ sandbox }) => sandbox?.sandboxID ?? [])
    const failures = forks.flatMap(({ error }) => error?.message ?? [])
    if (ids.length === 0) throw new AppError('unprocessable', failures.join('\n') || 'No fork was made.')
    return [`Forked ${sandboxID}: ${ids.join(', ')}`, ...failures].join('\n')
  },
})

const killSandbox = tool({
  name: 'kill_sandbox',
  description: 'End a sandbox for good, with all its files.',
  input: Type.Object({ sandboxID: SandboxID }),
  async run(client, { sandboxID }, signal) {
    await client.rest('DELETE', pathOf(sandboxID), undefined, signal)
    return `The sandbox ${sandboxID} has ended.`
  },
})

const getPortURL = tool({
  name: 'get_port_url',
  description:
    'Get the URL under which a server that listens on a port of a sandbox is reached from outside.',
  input: Type.Object({ sandboxID: SandboxID, port: Type.Integer({ minimum: 1, maximum: 65_535 }) }),
  run: (client, { sandboxID, port }, signal) => portURL(client, sandboxID, port, signal),
})

async function portURL(client: WarrenClient, sandboxID: string, port: number, signal: AbortSignal) {
  const { domain } = await client.rest<SandboxDetail>('GET', pathOf(sandboxID), undefined, signal)
  if (!domain) {
    throw new AppError(
      'unprocessable',
      'This server has no domain under which ports are reached, or the sandbox is paused: resume it, or have the operator set WARREN_DOMAIN.',
    )
  }
  const isLocal = /^localhost(:\d+)?$/.test(domain)
  return `${isLocal ? 'http' : 'https'}://${port}-${sandboxID}.${domain}`
}

const pathOf = (sandboxID: string) => `/sandboxes/${encodeURIComponent(sandboxID)}`

export const sandboxTools: readonly Tool[] = [
  ...[createSandbox, listSandboxes, pauseSandbox, resumeSandbox, forkSandbox, killSandbox, getPortURL],
]
