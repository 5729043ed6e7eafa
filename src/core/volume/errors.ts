import { AppError, isAppError } from '../../lib/app-error.ts'

export const volumeNotFound = (volumeID: string) =>
  new AppError('not_found', `Volume ${JSON.stringify(volumeID)} not found: the team has none with this id`)

export const volumeInUse = (name: string, usedBy: readonly string[]) =>
  new AppError(
    'conflict',
    `Volume "${name}" is mounted in ${usedBy.length} sandboxes that run or are paused (${usedBy.slice(0, 5).join(', ')}` +
      `${usedBy.length > 5 ? ', …' : ''}): kill them first`,
    { slug: 'volume_in_use', retry: { should: false } },
  )

export const tooManyVolumes = (most: number) =>
  new AppError(
    'limit_reached',
    `The team has ${most} volumes, which is the limit: delete those it does not need, or ask the operator to raise ` +
      'WARREN_VOLUMES_PER_TEAM',
    { slug: 'volume_limit_reached', retry: { should: false } },
  )

export const perhapsCreated = (name: string, cause: unknown) =>
  new AppError(
    'unavailable',
    `The database did not answer, so it is not known whether volume "${name}" exists now: list the volumes before you ` +
      'create it again',
    { cause, retry: { should: false } },
  )

export const contentIsBusy = (most: number) =>
  new AppError(
    'limit_reached',
    `${most} requests for the content of this volume are under way: wait until some are done`,
    { retry: { should: true, afterSeconds: 1 } },
  )

export const volumeNameTaken =
  (name: string) =>
  (cause: unknown): never => {
    if (!isAppError(cause, 'already_exists')) throw cause
    throw new AppError('invalid_argument', `Volume with name '${name}' already exists`, { cause })
  }
