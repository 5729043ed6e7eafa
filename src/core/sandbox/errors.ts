import { AppError } from '../../lib/app-error.ts'
import type { TeamLimits } from '../team/team.ts'

export const sandboxNotFound = (sandboxID: string) =>
  new AppError('not_found', `Sandbox "${sandboxID}" doesn't exist or you don't have access to it`)

export const sandboxIsBusy = (sandboxID: string, state: string) =>
  new AppError('conflict', `Sandbox "${sandboxID}" is ${state}; try again in a moment`)

export const timeoutTooLong = (limits: TeamLimits) =>
  new AppError('invalid_argument', `Timeout cannot be greater than ${limits.maxLifetimeHours} hours`)

export const lifetimeUsedUp = (limits: TeamLimits) =>
  new AppError(
    'invalid_argument',
    `Max instance length exceeded: a sandbox of this team may run for ${limits.maxLifetimeHours} hours; create a new one`,
  )

/** Waiting does not cure a quota, so clients are told not to retry by themselves. */
export function teamLimitReached(
  exceeded: 'maxSandboxes' | 'maxCPU' | 'maxMemoryMB',
  limits: TeamLimits,
): AppError {
  const what = {
    maxSandboxes: `the maximum number of concurrent sandboxes (${limits.maxSandboxes})`,
    maxCPU: `the maximum of ${limits.maxCPU} CPUs over all its sandboxes`,
    maxMemoryMB: `the maximum of ${limits.maxMemoryMB} MiB of memory over all its sandboxes`,
  }[exceeded]
  return new AppError(
    'limit_reached',
    `The team has reached ${what}. Kill sandboxes that are no longer needed, or ask the operator to raise the limit with 'warren team limits'.`,
    { retry: { should: false } },
  )
}

export const createFailed = (cause: unknown, detail: string) =>
  new AppError('internal', `The sandbox could not be started: ${detail}`, {
    cause,
    slug: 'sandbox_create_failed',
    retry: { should: false },
  })

export const killedWhileCreating = (sandboxID: string) =>
  new AppError('conflict', `Sandbox "${sandboxID}" was killed while it was being created`)

export const idempotencyMismatch = () =>
  new AppError(
    'unprocessable',
    'This Idempotency-Key was used before with a different request; use a new key for a new request',
    { slug: 'idempotency_request_mismatch', retry: { should: false } },
  )

export const idempotencyOutcomeUnknown = () =>
  new AppError(
    'conflict',
    'The first request with this Idempotency-Key did not leave a sandbox; use a new key to create one',
    { slug: 'idempotency_outcome_unknown', retry: { should: false } },
  )
