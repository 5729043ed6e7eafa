import { AppError, isAppError } from '../../lib/app-error.ts'
import type { LostVolume } from './lost-volume-store.ts'

export const volumeNotFound = (volumeID: string) =>
  new AppError('not_found', `Volume ${JSON.stringify(volumeID)} not found: the team has none with this id`)

export const volumeInUse = (name: string, usedBy: readonly string[]) =>
  new AppError(
    'conflict',
    `Volume "${name}" is mounted in ${usedBy.length} sandboxes that run or are paused (${usedBy.slice(0, 5).join(', ')}` +
      `${usedBy.length > 5 ? ', …' : ''}): kill them first`,
    { slug: 'volume_in_use', retry: { should: false } },
  )

export const tooManyVolumes = (max: number) =>
  new AppError(
    'limit_reached',
    `The team has ${max} volumes, which is the limit: delete those it does not need, or ask the operator to raise ` +
      'WARREN_VOLUMES_PER_TEAM',
    { slug: 'volume_limit_reached', retry: { should: false } },
  )

export const perhapsCreated = (name: string, cause: unknown) =>
  new AppError(
    'unavailable',
    `The database did not answer, so it is not known whether volume "${name}" exists now: list the volumes before you ` +
      'create it again',
    { slug: 'create_outcome_unknown', cause, retry: { should: false } },
  )

export const contentIsBusy = (max: number) =>
  new AppError(
    'limit_reached',
    `${max} requests for the content of this volume are under way: wait until some are done`,
    { retry: { should: true, afterSeconds: 1 } },
  )

export const volumeNameInUse =
  (name: string) =>
  (cause: unknown): never => {
    if (!isAppError(cause, 'already_exists')) throw cause
    throw new AppError('invalid_argument', `Volume with name '${name}' already exists`, { cause })
  }

export const noLostVolume = (volumeID: string) =>
  new AppError(
    'not_found',
    `There is no lost volume ${JSON.stringify(volumeID)}. Run \`warren volume lost\` to list them.`,
  )

export const diskNotBack = ({ volumeID, name, nodeID }: LostVolume) =>
  new AppError(
    'unavailable',
    `The disk of volume "${name}" is not there: node ${nodeID} had it. Start Warren on that machine again, or copy ` +
      `volumes/${volumeID}.ext4 from its data folder to another machine, and run the command there.`,
    { retry: { should: false } },
  )

export const recoveredNameInUse =
  (volumeID: string, name: string) =>
  (cause: unknown): never => {
    if (!isAppError(cause, 'already_exists')) throw cause
    throw new AppError(
      'conflict',
      `The team has another volume "${name}" now. Run \`warren volume recover ${volumeID} --name NAME\` with a new name.`,
      { cause },
    )
  }
