/** Rejects options that this version does not support: ignoring one would silently break a promise. */
import type { NewSandbox } from '../../../contract/rest/sandbox.ts'
import { AppError } from '../../../lib/app-error.ts'

/** The options that the operator allows. */
export type AllowedOptions = { allowInsecureSandboxes: boolean }

type Refusal = { when: (body: NewSandbox, allowed: AllowedOptions) => boolean; message: string }

const given = (value: unknown): boolean =>
  value !== undefined &&
  value !== null &&
  !(Array.isArray(value) && value.length === 0) &&
  !(typeof value === 'object' && Object.keys(value).length === 0)

const notYet = (option: string, instead: string) =>
  `${option} is not available in this version of Warren; ${instead}`

const refusals: Refusal[] = [
  {
    when: (body) => body.autoPauseMemory === false && body.autoPause !== true,
    message: 'autoPauseMemory: false only makes sense together with autoPause: true',
  },
  {
    when: (body) => body.autoPauseMemory === false && body.autoResume?.enabled === true,
    message: 'autoPauseMemory: false cannot be combined with autoResume: traffic wakes memory pauses only',
  },
  {
    when: (body) => body.secure === false && body.network?.allowPublicTraffic === false,
    message:
      'secure: false cannot be combined with allowPublicTraffic: false, which requires a token. Leave one of them out',
  },
  {
    when: (body, allowed) => body.secure === false && !allowed.allowInsecureSandboxes,
    message:
      'secure: false is not allowed on this server: whoever knows the id of such a sandbox could use it. Leave it out, or have the operator set WARREN_ALLOW_INSECURE_SANDBOXES=yes',
  },
  { when: (body) => given(body.iam?.tokens), message: notYet('iam', 'pass credentials in envVars') },
]

export function refuseUnavailable(body: NewSandbox, allowed: AllowedOptions): void {
  const refusal = refusals.find(({ when }) => when(body, allowed))
  if (refusal) throw new AppError('invalid_argument', refusal.message)
}
