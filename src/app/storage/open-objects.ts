/** The configured object store, and the base template in it. */
import { mkdir, rm } from 'node:fs/promises'
import { basename } from 'node:path'
import { baseKey, layerKey } from '../../core/object-storage/keys.ts'
import type { ObjectStore, PackStore } from '../../core/ports/object-store.ts'
import type { TemplateBuild } from '../../core/template/template.ts'
import type { ClosableImages } from '../../images/images.ts'
import { unpackTree } from '../../images/layer-tar.ts'
import { errorText } from '../../lib/app-error.ts'
import { withDeadline } from '../../lib/deadline.ts'
import type { Log } from '../../lib/log.ts'
import type { Stores } from '../../store/stores.ts'
import type { Config } from '../config/config.ts'
import type { FetchBase } from '../setup/base-root.ts'

/** Answers are short here. A server that accepts connections and stays silent must not delay the start for minutes. */
export const answersWithinMs = 10_000

export type OpenedObjects = {
  objects: ObjectStore
  packs: PackStore
  /** Call it if files of packs will be fetched: the first of them then do not wait for a thread to start. */
  prepare(): void
  close(): Promise<void>
}

/** Undefined without an object store; its modules are not loaded then. */
export async function openObjects(config: Config): Promise<OpenedObjects | undefined> {
  const { objectStore, objectStoreEndpoint: endpoint, objectStoreRegion: region } = config
  if (objectStore === null) return undefined
  const [{ parseS3Url, S3ObjectStore }, { ObjectPacks }, { PackThread }] = await Promise.all([
    import('../../objects/s3-object-store.ts'),
    import('../../objects/packs.ts'),
    import('../../objects/pack-thread.ts'),
  ])
  const options = { ...parseS3Url(objectStore), endpoint, region }
  const objects = new S3ObjectStore(options)
  const thread = new PackThread(options)
  const close = async () => {
    await thread.close()
    await objects.close()
  }
  return { objects, packs: new ObjectPacks(objects, thread), prepare: () => thread.start(), close }
}

/**
 * Returns the layer of the base template. If another Warren has stored a base of the same recipe, that one is
 * used by all: two machines never make the same files, and memory fits only over the same ones. The layer is
 * on this machine when this resolves, so that no create waits for it.
 */
export async function baseLayer(
  images: ClosableImages,
  rootFolder: string,
  opened: Pick<OpenedObjects, 'objects'> | undefined,
  log: Log,
  withinMs = answersWithinMs,
): Promise<string> {
  const shared = await haveSharedBase(images, rootFolder, opened, withinMs).catch((err) => {
    log.warn({ err }, 'The object store does not answer; the base template of this machine is used.')
    return undefined
  })
  return shared ?? images.adopt(basename(rootFolder), rootFolder)
}

/** Undefined if the object store has no base of this name yet. */
async function haveSharedBase(
  images: ClosableImages,
  rootFolder: string,
  opened: Pick<OpenedObjects, 'objects'> | undefined,
  withinMs: number,
): Promise<string | undefined> {
  const name = basename(rootFolder)
  const shared = opened && (await findSharedBase(name, opened.objects, withinMs))
  if (shared === undefined || images.missing([shared]).length === 0) return shared
  // A fetched root is that layer already.
  if ((await images.adopt(name, rootFolder)) === shared) return shared
  await images.remoteLayers!.fetch([shared], new AbortController().signal)
  return shared
}

/** The digest of the layer that all Warrens use as the base of this name. */
function findSharedBase(name: string, objects: ObjectStore, withinMs: number): Promise<string | undefined> {
  const key = baseKey(name)
  return withinTime(withinMs, async (signal) => {
    const length = await objects.size(key, signal)
    if (length === undefined) return undefined
    return Buffer.from(await objects.read(key, 0, length, signal)).toString()
  })
}

export const withinTime = <T>(ms: number, ask: (signal: AbortSignal) => Promise<T>): Promise<T> =>
  withDeadline(ms, `The object store has not answered within ${ms / 1000} s.`, ask)

/** Asks the object store for an object that is not there. Rejects if it does not answer, in words. */
export async function requireAnswer(
  { objects }: Pick<OpenedObjects, 'objects'>,
  withinMs = answersWithinMs,
): Promise<void> {
  await withinTime(withinMs, (signal) => objects.size(baseKey('none'), signal))
}

/**
 * Fetches the root of the base template from the object store, if another Warren has stored it, instead of
 * making it.
 */
export function baseFetcher(open: () => Promise<OpenedObjects | undefined>): FetchBase {
  return async (name, root, progress) => {
    const opened = await open()
    if (!opened) return false
    try {
      const layer = await findSharedBase(name, opened.objects, answersWithinMs)
      if (layer === undefined) return false
      const unpack = (content: AsyncIterable<Uint8Array>) => unpackTree(content, root)
      const fetching = opened.packs.fetch(layerKey(layer), () => ({ open: () => unpack }))
      await progress.step('Fetch the base template from the object store', () => fetching)
      return (await fetching) !== undefined
    } catch (error) {
      progress.note(`The base template is made here: ${errorText(error)}`)
      await rm(root, { recursive: true })
      await mkdir(root, { mode: 0o755 })
      return false
    } finally {
      await opened.close()
    }
  }
}

/** Publishes the base once the object store has it, so that later Warrens use it. */
export async function shareBase(
  base: TemplateBuild,
  rootFolder: string,
  { objects }: Pick<OpenedObjects, 'objects'>,
  { remoteBytes }: Pick<Stores, 'remoteBytes'>,
): Promise<boolean> {
  const [layer] = base.layers ?? []
  if (layer === undefined || !(await remoteBytes.findStoredBuild(base.buildID))) return false
  await objects.putIfAbsent(baseKey(basename(rootFolder)), Buffer.from(layer))
  return true
}
