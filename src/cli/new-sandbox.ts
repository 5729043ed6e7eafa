/** The options by which `warren run` and `warren sandbox create` describe a new sandbox. */

import { onDemandKeys as onDemand } from '../contract/constants.ts'
import type { NewSandbox, Sandbox } from '../contract/rest/sandbox.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { memoryOf, namedValues, positiveNumber, UsageError } from './arguments.ts'
import { followBuild } from './follow-build.ts'
import { plainLines } from './output.ts'
import { nameKey, namePattern, requireFreeName } from './sandbox-name.ts'
import type { TeamClient } from './team-client.ts'
import type { Given } from './verbs.ts'

export const defaultTimeoutSeconds = 300

export const sandboxOptions = {
  texts: {
    template: 'NAME',
    image: 'NAME',
    cpu: 'N',
    memory: 'SIZE',
    name: 'NAME',
    timeout: 'SECONDS',
    gpus: 'N',
  },
  lists: { env: 'NAME=VALUE', metadata: 'NAME=VALUE', volume: 'NAME:PATH' },
  flags: ['no-internet'],
  shorts: { env: 'e', volume: 'v' },
} as const

export const sandboxOptionTexts = {
  template: "a template's name or id, or a snapshot's (default: base)",
  image: 'an image such as ubuntu:24.04, of which a template is built at the first time (default: none)',
  cpu: "CPUs, 1 or an even number (default: the template's)",
  memory: "memory in MiB, or with a unit such as 4g (default: the template's)",
  name: 'a name for the sandbox, which other commands take in place of its id (default: none)',
  timeout: `the sandbox ends after this time (default: ${defaultTimeoutSeconds})`,
  gpus: 'GPUs for the sandbox, see docs/gpu.md (default: none)',
  env: 'a variable of every process in it',
  metadata: 'for `warren sandbox list --metadata`',
  volume: 'mounts a volume at a path',
  'no-internet': 'nothing leaves the sandbox; without it, the sandbox reaches the internet',
}

export function newSandboxOf({ values, lists, flags }: Given, command: string): NewSandbox {
  const { template = 'base', image, cpu, memory, name, timeout, gpus } = values
  if (gpus !== undefined && !/^\d{1,2}$/.test(gpus))
    throw new UsageError(`--gpus is '${gpus}', but must be a whole number.`, command)
  if (image !== undefined && values.template !== undefined)
    throw new UsageError('An image and --template exclude each other.', command)
  const volumeMounts = (lists.volume ?? []).map((text) => volumeOf(text, command))
  const metadata = {
    ...namedValues('metadata', lists.metadata ?? [], command),
    ...(name !== undefined && { [nameKey]: nameOf(name, command) }),
    ...(gpus !== undefined && { 'warren.gpus': gpus }),
    ...(image !== undefined && { [onDemand.image]: image }),
    ...(cpu !== undefined && { [onDemand.cpu]: String(positiveNumber('cpu', cpu, command)) }),
    ...(memory !== undefined && { [onDemand.memory]: String(memoryOf(memory, command)) }),
  }
  return {
    templateID: template,
    timeout: timeout === undefined ? defaultTimeoutSeconds : positiveNumber('timeout', timeout, command),
    envVars: namedValues('env', lists.env ?? [], command),
    metadata,
    ...(volumeMounts.length > 0 && { volumeMounts }),
    ...(flags.has('no-internet') && { allow_internet_access: false }),
  }
}

function nameOf(name: string, command: string): string {
  if (namePattern.test(name)) return name
  throw new UsageError(`--name is '${name}', but must be of letters, digits, '.', '_' and '-'.`, command)
}

/** `say` tells how a template of an image or of a size is built. */
export async function createSandbox(
  client: TeamClient,
  wanted: NewSandbox,
  say: (line: string) => void,
  signal?: AbortSignal,
): Promise<Sandbox> {
  await requireFreeName(client, wanted.metadata?.[nameKey])
  await prepareTemplate(client, wanted, say, signal)
  return client.createSandbox(wanted).catch((error) => {
    if (!isAppError(error, 'not_found')) throw error
    const isVolume = /^Volume /.test(error.message)
    const hint = isVolume
      ? '`warren volume create NAME` makes one, `warren volume list` shows them.'
      : '`warren template list` shows the templates of the team, `warren template add` makes others.'
    throw new AppError('not_found', `${error.message.replace(/\.$/, '')}. ${hint}`, { cause: error })
  })
}

/** Builds the template of an image or of a size, and shows how; a create alone would wait in silence. */
async function prepareTemplate(
  client: TeamClient,
  { templateID, metadata }: NewSandbox,
  say: (line: string) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { [onDemand.image]: image, [onDemand.cpu]: cpu, [onDemand.memory]: memory } = metadata ?? {}
  if (image === undefined && cpu === undefined && memory === undefined) return
  const build = await client.prepareTemplate({
    ...(image === undefined ? { template: templateID } : { image }),
    ...(cpu !== undefined && { cpuCount: Number(cpu) }),
    ...(memory !== undefined && { memoryMB: Number(memory) }),
  })
  if (build.status === 'ready') return
  const what = image ?? templateID
  say(`A template is being built of ${what}; from the next time on it is there.`)
  const { status, reason } = await followBuild(
    (offset) => {
      // The build goes on, and the next run finds it.
      signal?.throwIfAborted()
      return client.readBuildStatus(build, offset)
    },
    (line) => say(plainLines(line)),
  )
  if (status !== 'error') return
  const why = (reason?.message ?? 'the server gives no reason').replace(/\.$/, '')
  throw new AppError('unprocessable', `No template could be built of ${what}: ${why}.`)
}

function volumeOf(text: string, command: string): { name: string; path: string } {
  const [, name, path] = /^([^:]+):(\/.*)$/.exec(text) ?? []
  if (name !== undefined && path !== undefined) return { name, path }
  throw new UsageError(
    `--volume is '${text}', but must be NAME:PATH with the name of a volume and an absolute path.`,
    command,
  )
}
