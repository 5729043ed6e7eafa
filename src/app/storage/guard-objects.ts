/** Sees to it that the configured object store is the one of the cluster before anything in it is used. */
import { readFile, writeFile } from 'node:fs/promises'
import {
  guardedObjects,
  guardedPacks,
  readMark,
  StoreIdentity,
  WrongObjectStore,
} from '../../core/object-storage/store-identity.ts'
import type { Clock } from '../../lib/clock.ts'
import { ifPresent } from '../../lib/if-present.ts'
import type { Log } from '../../lib/log.ts'
import type { Stores } from '../../store/stores.ts'
import type { Config } from '../config/config.ts'
import type { DataPaths } from '../data/data-folder.ts'
import { StartRefusal } from '../process/start-refusal.ts'
import { answersWithinMs, type OpenedObjects, withinTime } from './open-objects.ts'

type GuardParts = {
  config: Pick<Config, 'objectStore'>
  stores: Pick<Stores, 'nodes' | 'remoteBytes'>
  paths: Pick<DataPaths, 'objectStoreID'>
  clock: Clock
  log: Log
}

/**
 * Rejects with a `StartRefusal` if the settings name another place. If the object store or the database does not answer, the first use of the
 * object store looks again.
 */
export async function guardObjects(opened: OpenedObjects, parts: GuardParts): Promise<OpenedObjects> {
  const { config, stores, paths, clock, log } = parts
  const { objects, packs } = opened
  const identity = new StoreIdentity({
    objects,
    rows: stores.remoteBytes,
    shared: stores.nodes,
    location: config.objectStore!,
    clock,
    log,
  })
  try {
    await withinTime(answersWithinMs, () => identity.require())
  } catch (error) {
    if (error instanceof WrongObjectStore) {
      await opened.close()
      throw new StartRefusal(error.code, error.message, { cause: error })
    }
    log.warn(
      { err: error },
      'The object store does not answer; its place is looked at when it is used first.',
    )
  }
  if (identity.provedID !== undefined) await rememberForDoctor(identity.provedID, paths, log)
  return { ...opened, objects: guardedObjects(objects, identity), packs: guardedPacks(packs, identity) }
}

/** Only the doctor reads it, so Warren starts without it, as on a full disk. */
async function rememberForDoctor(
  id: string,
  { objectStoreID }: GuardParts['paths'],
  log: Log,
): Promise<void> {
  await writeFile(objectStoreID, `${id}\n`).catch((err) =>
    log.warn(
      { err },
      `${objectStoreID} cannot be written, so the doctor does not notice another object store.`,
    ),
  )
}

/**
 * Why the store of the settings is not the one that this machine used last; undefined if it is, or if this machine has used none. For the
 * doctor, which reads no database.
 */
export async function whyOtherStore(
  { objects }: Pick<OpenedObjects, 'objects'>,
  paths: Pick<DataPaths, 'objectStoreID'>,
): Promise<string | undefined> {
  const last = (await ifPresent(readFile(paths.objectStoreID, 'utf8')))?.trim()
  const mark = await withinTime(answersWithinMs, (signal) => readMark(objects, signal))
  if (last === undefined || mark === last) return undefined
  return mark === undefined ? 'has no mark of a cluster' : 'has the mark of another cluster'
}
