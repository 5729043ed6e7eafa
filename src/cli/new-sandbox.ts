/** The options by which `warren run` and `warren sandbox create` describe a new sandbox. */
import type { NewSandbox, Sandbox } from '../contract/rest/sandbox.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { namedValues, positiveNumber, UsageError } from './arguments.ts'
import { nameKey, namePattern, requireFreeName } from './sandbox-name.ts'
import type { TeamClient } from './team-client.ts'
import type { Given } from './verbs.ts'

export const defaultTimeoutSeconds = 300

export const sandboxOptions = {
  texts: { template: 'NAME', name: 'NAME', timeout: 'SECONDS', gpus: 'N' },
  lists: { env: 'NAME=VALUE', metadata: 'NAME=VALUE', volume: 'NAME:PATH' },
  flags: ['no-internet'],
  shorts: { env: 'e', volume: 'v' },
} as const

export const sandboxOptionTexts = {
  template:
    "a template's name or id, or a snapshot's; base unless given. It says how many CPUs and how much memory",
  name: 'a name for the sandbox, which other commands take in place of its id; none unless given',
  timeout: `the sandbox ends after this time; ${defaultTimeoutSeconds} unless given`,
  gpus: 'GPUs for the sandbox (docs/gpu.md); none unless given',
  env: 'a variable of every process in it',
  metadata: 'for `warren sandbox list --metadata`',
  volume: 'mounts a volume at a path',
  'no-internet': 'nothing leaves the sandbox; without it, the sandbox reaches the internet',
}

export function newSandboxOf({ values, lists, flags }: Given, command: string): NewSandbox {
  const { template = 'base', name, timeout, gpus } = values
  if (gpus !== undefined && !/^\d{1,2}$/.test(gpus))
    throw new UsageError(`--gpus is '${gpus}', but must be a whole number.`, command)
  const volumeMounts = (lists.volume ?? []).map((text) => volumeOf(text, command))
  const metadata = {
    ...namedValues('metadata', lists.metadata ?? [], command),
    ...(name !== undefined && { [nameKey]: nameOf(name, command) }),
    ...(gpus !== undefined && { 'warren.gpus': gpus }),
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

export async function createSandbox(client: TeamClient, wanted: NewSandbox): Promise<Sandbox> {
  await requireFreeName(client, wanted.metadata?.[nameKey])
  return client.createSandbox(wanted).catch((error) => {
    if (!isAppError(error, 'not_found')) throw error
    const isVolume = /^Volume /.test(error.message)
    const hint = isVolume
      ? '`warren volume create NAME` makes one, `warren volume list` shows them.'
      : '`warren template list` shows the templates of the team, `warren template add` makes others.'
    throw new AppError('not_found', `${error.message.replace(/\.$/, '')}. ${hint}`, { cause: error })
  })
}

function volumeOf(text: string, command: string): { name: string; path: string } {
  const [, name, path] = /^([^:]+):(\/.*)$/.exec(text) ?? []
  if (name !== undefined && path !== undefined) return { name, path }
  throw new UsageError(
    `--volume is '${text}', but must be NAME:PATH with the name of a volume and an absolute path.`,
    command,
  )
}
