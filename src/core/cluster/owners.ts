/**
 * Caches the owners of objects: an owner changes rarely, and a peer that is not the owner any more says so.
 * Objects of this node are not cached, because nobody tells this node when another takes one over.
 */
import type { Owned, Owner, OwnerStore } from './owner-store.ts'

const maxRemembered = 100_000

export class Owners {
  readonly #store: Pick<OwnerStore, 'ownerOf'>
  readonly #nodeID: string
  /** Ordered by last use, the most recent last. */
  readonly #remembered = new Map<string, Owner>()

  constructor(store: Pick<OwnerStore, 'ownerOf'>, nodeID: string) {
    this.#store = store
    this.#nodeID = nodeID
  }

  /** Undefined if there is no such object. */
  async find(what: Owned): Promise<Owner | undefined> {
    const key = keyOf(what)
    const known = this.#remembered.get(key)
    if (!known) return this.read(what)
    this.#remembered.delete(key)
    this.#remembered.set(key, known)
    return known
  }

  /** Reads the owner from its row. */
  async read(what: Owned): Promise<Owner | undefined> {
    const owner = await this.#store.ownerOf(what)
    this.forget(what)
    // A template's newest build changes soon, and so does what becomes of a lost volume.
    if (owner && what.kind !== 'template' && what.kind !== 'lost volume') this.remember(what, owner)
    return owner
  }

  /** Caches an owner that the owner itself reported. */
  remember(what: Owned, owner: Owner): void {
    if (owner.nodeID === this.#nodeID) return
    const key = keyOf(what)
    this.#remembered.delete(key)
    if (this.#remembered.size >= maxRemembered) this.#forgetOldest()
    this.#remembered.set(key, owner)
  }

  /** Drops an owner that this node knows to have changed. */
  forget(what: Owned): void {
    this.#remembered.delete(keyOf(what))
  }

  #forgetOldest(): void {
    const [oldest] = this.#remembered.keys()
    if (oldest !== undefined) this.#remembered.delete(oldest)
  }
}

const keyOf = ({ kind, id }: Owned): string => `${kind} ${id}`
