import { AppError, type ErrorCode, isAppError } from '../../../lib/app-error.ts'
import type { TeamLimits } from '../../team/team.ts'
import type { ExceededLimit } from './sandbox-store.ts'

const notFoundText = (sandboxID: string) =>
  `Sandbox "${sandboxID}" doesn't exist or you don't have access to it`

export const sandboxNotFound = (sandboxID: string) => new AppError('not_found', notFoundText(sandboxID))

/**
 * The node that was asked had no row of the sandbox when it looked. Another node may have the row, or may have had it at that
 * moment. Clients get the same answer as to an unknown ID.
 */
export class SandboxNotHere extends AppError {
  constructor(sandboxID: string) {
    super('not_found', notFoundText(sandboxID))
  }
}

export const sandboxEnds = (sandboxID: string) =>
  new AppError('conflict', `Sandbox "${sandboxID}" is being killed`, { retry: { should: false } })

export const alreadyRunning = (sandboxID: string) =>
  new AppError('conflict', `Sandbox ${sandboxID} is already running`, { retry: { should: false } })

export const alreadyPaused = (sandboxID: string) =>
  new AppError('conflict', `Error pausing sandbox - sandbox '${sandboxID}' is already paused`, {
    retry: { should: false },
  })

export const cannotPause = (sandboxID: string, state: string) =>
  new AppError('conflict', `Sandbox '${sandboxID}' cannot be paused while in '${state}' state`)

export const pausedNotForked = (sandboxID: string) =>
  new AppError('conflict', `Sandbox '${sandboxID}' is paused and cannot be forked; resume it first`, {
    retry: { should: false },
  })

export const tooManyForks = (count: number, limits: TeamLimits) =>
  new AppError(
    'invalid_argument',
    `${count} forks are too many: the team may have ${limits.maxSandboxes} sandboxes at a time, this one included`,
  )

/** Not retried: the server has already waited, and clients that retried would need a minute to fail. */
export const agentDoesNotAnswer = (sandboxID: string) =>
  new AppError(
    'unavailable',
    `Sandbox "${sandboxID}" was not paused and keeps running: its agent does not answer. ` +
      'Wait until it is less busy, or pause it with its memory and without requireHealthyGuest.',
    { retry: { should: false } },
  )

export const memoryNotArrived = (sandboxID: string, cause: unknown) =>
  new AppError(
    'unavailable',
    `Sandbox "${sandboxID}" was resumed from the object store, and its memory has not arrived completely: try again later.`,
    { cause, retry: { should: true } },
  )

export const memoryDiscarded = (sandboxID: string, networks: 'some' | 'unknown') =>
  networks === 'some' ? hasOtherNetworks(sandboxID) : networksUnknown(sandboxID)

/** Not a conflict: clients take that answer to a pause for "is paused already". */
const hasOtherNetworks = (sandboxID: string) =>
  new AppError(
    'unprocessable',
    `No snapshot of the memory of sandbox "${sandboxID}" was taken and the sandbox keeps running: a process in it has a network ` +
      'namespace of its own, which could not be restored. End such processes first (with Docker: stop the containers, or ' +
      'run them with --network=host), or do without the memory (keepMemory: false).',
    { retry: { should: false } },
  )

/** Not retried by clients: the server has already waited. */
const networksUnknown = (sandboxID: string) =>
  new AppError(
    'unavailable',
    `No snapshot of the memory of sandbox "${sandboxID}" was taken and the sandbox keeps running: its agent did not say in time ` +
      'whether a process has a network namespace of its own, which could not be restored. Try again when the sandbox is less ' +
      'busy, or do without the memory (keepMemory: false).',
    { retry: { should: false } },
  )

/** The slug makes clients show what to do. */
export const pausedUnresponsive = (sandboxID: string) =>
  new AppError(
    'conflict',
    `The agent of sandbox "${sandboxID}" did not answer when it was paused, so its memory may never answer ` +
      'again. Resume it with memory: false to boot it from its files.',
    { slug: 'sandbox_snapshot_guest_agent_unresponsive', retry: { should: false } },
  )

export const killedWhile = (sandboxID: string, doing: string) =>
  new AppError('conflict', `Sandbox "${sandboxID}" was killed while it was being ${doing}`, {
    retry: { should: false },
  })

/**
 * The sandbox ran, but its timeout was over before the database answered again and the client could be told.
 */
export const timeWasOver = (sandboxID: string, doing: string) =>
  new AppError(
    'unavailable',
    `The timeout of sandbox "${sandboxID}" ended before the database confirmed that the sandbox had been ${doing}: it did not ` +
      'answer for that long. Create a new sandbox.',
    { retry: { should: false } },
  )

/** The operator has forgotten the node that worked on it. */
export const lostWhile = (sandboxID: string, doing: string) =>
  new AppError(
    'conflict',
    `Sandbox "${sandboxID}" was lost while it was being ${doing}, because its node was forgotten. Create a new sandbox.`,
    { retry: { should: false } },
  )

/** Its node was forgotten and it is as it was before, or another node has it by now. */
export const changedWhile = (sandboxID: string, doing: string) =>
  new AppError(
    'unavailable',
    `Sandbox "${sandboxID}" was changed by another node while it was being ${doing}; try again in a moment.`,
    { retry: { should: true, afterSeconds: 1 } },
  )

/** For a client these would be about the sandbox, which exists. They are about its files or processes. */
const codesOfOtherThings: readonly ErrorCode[] = ['internal', 'not_found', 'already_exists']

/** `isPaused`: the row says so. Otherwise the reconciler still has to find out what is left of the resume. */
export const resumeFailed = (
  sandboxID: string,
  cause: unknown,
  { detail, isPaused }: { detail: string; isPaused: boolean },
) =>
  new AppError(
    isAppError(cause) && !codesOfOtherThings.includes(cause.code) ? cause.code : 'unavailable',
    `Sandbox "${sandboxID}" could not be resumed${isPaused ? ' and is still paused' : ''}: ${detail}`,
    { cause },
  )

/** The snapshot is safe: the reconciler finishes the pause once the database answers. */
export const pauseNotRecorded = (sandboxID: string, cause: unknown) =>
  new AppError(
    'unavailable',
    `Sandbox "${sandboxID}" was paused, but the database could not be updated. Nothing is lost: the sandbox is shown ` +
      'as paused soon after the database answers again.',
    { cause, retry: { should: false } },
  )

/** The sandbox runs: the reconciler finishes the resume once the database answers. */
export const resumeNotRecorded = (sandboxID: string, cause: unknown) =>
  new AppError(
    'unavailable',
    `Sandbox "${sandboxID}" was resumed, but the database could not be updated. Nothing is lost: the sandbox is shown ` +
      'as running soon after the database answers again.',
    { cause, retry: { should: false } },
  )

export const sandboxIsBusy = (sandboxID: string, state: string) =>
  new AppError('conflict', `Sandbox "${sandboxID}" is ${state}; try again in a moment`)

export const timeoutTooLong = (limits: TeamLimits) =>
  new AppError('invalid_argument', `Timeout cannot be greater than ${limits.maxLifetimeHours} hours`)

export const lifetimeUsedUp = (limits: TeamLimits) =>
  new AppError(
    'invalid_argument',
    `Max instance length exceeded: a sandbox of this team may run for ${limits.maxLifetimeHours} hours; create a new one`,
  )

/** Waiting does not lift a quota, so clients are told not to retry by themselves. */
export function teamLimitReached(exceeded: ExceededLimit, limits: TeamLimits): AppError {
  const what = {
    maxSandboxes: `the maximum number of concurrent sandboxes (${limits.maxSandboxes})`,
    maxCPU: `the maximum of ${limits.maxCPU} CPUs over all its sandboxes`,
    maxMemoryMB: `the maximum of ${limits.maxMemoryMB} MiB of memory over all its sandboxes`,
    maxGPUs: `the maximum of ${limits.maxGPUs} GPUs over all its sandboxes`,
  }[exceeded]
  return new AppError(
    'limit_reached',
    `The team has reached ${what}. Kill sandboxes that are no longer needed, or ask the operator to raise the limit with 'warren team limits'.`,
    { retry: { should: false } },
  )
}

export const noGpusHere = () =>
  new AppError(
    'invalid_argument',
    'Sandboxes cannot have a GPU here: the operator has to turn it on with WARREN_GPUS, on a machine with one.',
  )

export const tooManyGpus = (wanted: number, max: number) =>
  new AppError(
    'invalid_argument',
    `The sandbox asks for ${wanted} GPUs, and one sandbox can have ${max} here.`,
  )

export const createFailed = (cause: unknown, detail: string) =>
  new AppError('internal', `The sandbox could not be started: ${detail}`, {
    cause,
    slug: 'sandbox_create_failed',
    retry: { should: false },
  })

export const buildIsGone = (buildID: string) =>
  new AppError(
    'not_found',
    `The template build ${buildID}, which the sandbox was made from, does not exist any more`,
  )

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

/** The database did not answer when the sandbox ran already, and the sandbox could not be stopped either. */
export const perhapsCreated = (sandboxID: string, cause: unknown) =>
  new AppError(
    'unavailable',
    `The database did not answer, so it is not known whether sandbox "${sandboxID}" exists now: list the sandboxes before ` +
      'you create another one',
    { slug: 'create_outcome_unknown', cause, retry: { should: false } },
  )

/** The node that passed the create on no longer waits for an answer, or the node that creates it was forgotten. */
export const createGivenUp = () =>
  new AppError(
    'unavailable',
    'Another node gave this create up before the sandbox ran, so nothing was created; try again.',
    { retry: { should: true, afterSeconds: 1 } },
  )

/** `why` names the shortage for which the sandbox is frozen. */
export const sandboxIsFrozen = (why: string) => new AppError('no_space', why)
