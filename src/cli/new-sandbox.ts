/** The options by which `warren run` and `warren sandbox create` describe a new sandbox. */
import type { NewSandbox, Sandbox } from '../contract/rest/sandbox.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { namedValues, positiveNumber, UsageError } from './arguments.ts'
import type { TeamClient } from './team-client.ts'
import type { Given } from './verbs.ts'

export const defaultTimeoutSeconds = 300

export const sandboxOptions = {
  texts: { template: 'NAME', timeout: 'SECONDS', gpus: 'N' },
  lists: { env: 'NAME=VALUE', metadata: 'NAME=VALUE', volume: 'NAME:PATH' },
  flags: ['no-internet'],
  shorts: { env: 'e' },
} as const

export const sandboxOptionsHelp = `  --template NAME      a template's name or id, or a snapshot's; else base. CPUs and memory are the template's
  --timeout SECONDS    the sandbox ends after this time
  --gpus N             GPUs for the sandbox; see docs/gpu.md
  --env NAME=VALUE     a variable of every process in it; may be given several times
  --metadata NAME=VALUE  for \`warren sandbox list --metadata\`; may be given several times
  --volume NAME:PATH   mounts a volume; may be given several times
  --no-internet        nothing leaves the sandbox`

export function newSandboxOf({ values, lists, flags }: Given, command: string): NewSandbox {
  const { template = 'base', timeout, gpus } = values
  if (gpus !== undefined && !/^\d{1,2}$/.test(gpus))
    throw new UsageError(`--gpus is '${gpus}', but must be a whole number.`, command)
  const volumeMounts = (lists.volume ?? []).map((text) => volumeOf(text, command))
  const metadata = {
    ...namedValues('metadata', lists.metadata ?? [], command),
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

export async function createSandbox(client: TeamClient, wanted: NewSandbox): Promise<Sandbox> {
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
  throw new UsageError(`--volume is '${text}', but must be NAME:PATH with an absolute path.`, command)
}
