/** Rejects options that this version does not support: ignoring one would silently break a promise. */
import type { NewSandbox } from '../../../contract/rest/sandbox.ts'
import { AppError } from '../../../lib/app-error.ts'

type Refusal = { when: (body: NewSandbox) => boolean; message: string }

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
    // E2B's own words: its test suite compares them.
    message:
      "You cannot create a sandbox without public access unless you enable secure envd access via 'secure' flag.",
  },
  { when: (body) => given(body.iam?.tokens), message: notYet('iam', 'pass credentials in envVars') },
]

export function refuseUnavailable(body: NewSandbox): void {
  const refusal = refusals.find(({ when }) => when(body))
  if (refusal) throw new AppError('invalid_argument', refusal.message)
}
