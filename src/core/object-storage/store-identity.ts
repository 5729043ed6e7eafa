/**
 * The mark of a cluster in its object store: an object with an ID that the database has too. A node whose settings name another place
 * finds another mark or none, and uses nothing there: it would take what it stores for stored, where no other node finds it, and
 * what others have stored for missing.
 */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { newUUID } from '../../lib/ids.ts'
import { JoinedWork } from '../../lib/keyed-lock.ts'
import type { Log } from '../../lib/log.ts'
import type { ObjectKey, ObjectStore, PackStore } from '../ports/object-store.ts'
import type { RemoteBytesStore } from './remote-bytes-store.ts'

export const identityKey: ObjectKey = 'identity'
/** The name of the ID in the database. */
const sharedName = 'object store'
const maxBytes = 100

/** What the database remembers: the ID, and the place that the settings of the first node named. */
type Claim = { id: string; location: string }
const readClaim = (value: string): Claim => {
  const [id = '', ...location] = value.split(' ')
  return { id, location: location.join(' ') }
}

/** How long a refusal is valid without another look. */
const lookAgainMs = 60_000

/** The place of the settings is not that of the cluster. */
export class WrongObjectStore extends AppError {
  constructor(message: string) {
    super('unavailable', message, { retry: { should: false } })
  }
}

/** Values that all Warrens of a database share. */
interface SharedValues {
  share(name: string, value: string): Promise<string>
  findShared(name: string): Promise<string | undefined>
}

type StoreIdentityParts = {
  objects: Pick<ObjectStore, 'putIfAbsent' | 'readEnd' | 'size'>
  rows: Pick<RemoteBytesStore, 'listSomeStored'>
  shared: SharedValues
  /** The place of the settings, such as `s3://bucket/prefix`. */
  location: string
  clock: Clock
  log: Log
}

export class StoreIdentity {
  readonly #parts: StoreIdentityParts
  readonly #looks = new JoinedWork<void>()
  #provedID: string | undefined
  #refusal: { error: WrongObjectStore; at: number } | undefined

  constructor(parts: StoreIdentityParts) {
    this.#parts = parts
  }

  /** Undefined until the place was found to be the right one. */
  get provedID(): string | undefined {
    return this.#provedID
  }

  /**
   * Resolves if this is the place of the cluster. Otherwise rejects with `WrongObjectStore`, or with the failure of the store
   * or the database.
   */
  require = async (): Promise<void> => {
    if (this.#provedID !== undefined) return
    const { clock } = this.#parts
    if (this.#refusal && clock.now() - this.#refusal.at < lookAgainMs) throw this.#refusal.error
    await this.#looks.run('look', () => this.#look())
  }

  async #look(): Promise<void> {
    const { clock, log } = this.#parts
    try {
      this.#provedID = await this.#prove()
      this.#refusal = undefined
    } catch (error) {
      if (error instanceof WrongObjectStore) {
        if (!this.#refusal) log.error({ err: error }, 'Warren does not use the object store of its settings.')
        this.#refusal = { error, at: clock.now() }
      }
      throw error
    }
  }

  /** Returns the ID. */
  async #prove(): Promise<string> {
    const { shared, location } = this.#parts
    const [mark, known] = [await this.#read(), await shared.findShared(sharedName)]
    const claim = known === undefined ? undefined : readClaim(known)
    if (mark !== undefined) {
      if (mark === claim?.id) return mark
      // The database may be from before the mark; otherwise the mark is another cluster's.
      if (claim || (await this.#lookForStored()) !== 'some') throw this.#isForeign()
      const { id } = readClaim(await shared.share(sharedName, `${mark} ${location}`))
      if (id !== mark) throw this.#isForeign()
      return id
    }
    const own = claim ?? readClaim(await shared.share(sharedName, `${newUUID()} ${location}`))
    const stored = await this.#lookForStored()
    if (stored === 'none') throw this.#isElsewhere(own, 'has nothing of what this cluster has stored')
    // With nothing stored yet, only the place that the first node named gets the mark.
    if (stored === 'nothing is stored' && own.location !== location)
      throw this.#isElsewhere(own, `is not ${own.location}, which this cluster uses`)
    const isNew = await this.#parts.objects.putIfAbsent(identityKey, Buffer.from(own.id))
    if (!isNew && (await this.#read()) !== own.id) throw this.#isForeign()
    return own.id
  }

  #read(): Promise<string | undefined> {
    return readMark(this.#parts.objects)
  }

  /** Whether this place has any of the newest objects that the rows say are stored. */
  async #lookForStored(): Promise<'some' | 'none' | 'nothing is stored'> {
    const { rows, objects } = this.#parts
    const keys = await rows.listSomeStored()
    for (const key of keys) if ((await objects.size(key)) !== undefined) return 'some'
    return keys.length === 0 ? 'nothing is stored' : 'none'
  }

  #isForeign(): WrongObjectStore {
    const { location } = this.#parts
    return new WrongObjectStore(
      `The object store at ${location} has the mark of another cluster. Set WARREN_OBJECT_STORE to a bucket or prefix of this cluster's own. ` +
        `If the other cluster is gone, remove the object ${location}/${identityKey}.`,
    )
  }

  #isElsewhere({ id }: Claim, how: string): WrongObjectStore {
    const { location } = this.#parts
    return new WrongObjectStore(
      `The object store at ${location} ${how}. Set WARREN_OBJECT_STORE to the place that the other machines ` +
        `use. If this place is the right one because the bucket was emptied or replaced, write the object ${location}/${identityKey} with the content ${id}.`,
    )
  }
}

/** The ID in the store; undefined without a mark. */
export async function readMark(
  objects: Pick<ObjectStore, 'readEnd'>,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const end = await objects.readEnd(identityKey, maxBytes, signal)
  return end && Buffer.from(end.bytes).toString().trim()
}

type Require = () => Promise<void>

const after =
  (require: Require) =>
  <Args extends unknown[], Result>(work: (...args: Args) => Promise<Result>) =>
  async (...args: Args): Promise<Result> => {
    await require()
    return work(...args)
  }

const listedAfter = (require: Require, { list }: Pick<ObjectStore, 'list'>) =>
  async function* (prefix: string) {
    await require()
    yield* list(prefix)
  }

/** The same store, which is used only once its place was found to be the right one. */
export function guardedObjects(
  objects: ObjectStore,
  { require }: Pick<StoreIdentity, 'require'>,
): ObjectStore {
  const guarded = after(require)
  return {
    putIfAbsent: guarded((...args) => objects.putIfAbsent(...args)),
    size: guarded((...args) => objects.size(...args)),
    read: guarded((...args) => objects.read(...args)),
    readEnd: guarded((...args) => objects.readEnd(...args)),
    remove: guarded((...args) => objects.remove(...args)),
    removeUnfinished: guarded((...args) => objects.removeUnfinished(...args)),
    list: listedAfter(require, { list: (prefix) => objects.list(prefix) }),
    close: () => objects.close(),
  }
}

/** The same packs, which are used only once their place was found to be the right one. */
export function guardedPacks(packs: PackStore, { require }: Pick<StoreIdentity, 'require'>): PackStore {
  const guarded = after(require)
  return {
    store: guarded((...args) => packs.store(...args)),
    open: guarded((...args) => packs.open(...args)),
    fetch: guarded((...args) => packs.fetch(...args)),
    has: guarded((...args) => packs.has(...args)),
    remove: guarded((...args) => packs.remove(...args)),
    list: listedAfter(require, { list: (prefix) => packs.list(prefix) }),
  }
}
