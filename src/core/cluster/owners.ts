/**
 * Who owns what, remembered: an owner changes rarely, and a peer that is none any more says so. What this node owns is
 * not remembered, since nobody tells it when another takes that over.
 */
import type { Owned, Owner, OwnerStore } from './owner-store.ts'

const mostRemembered = 100_000

export class Owners {
  readonly #store: Pick<OwnerStore, 'ownerOf'>
  readonly #nodeID: string
  /** The one that was used last comes last. */
  readonly #remembered = new Map<string, Owner>()

  constructor(store: Pick<OwnerStore, 'ownerOf'>, nodeID: string) {
    this.#store = store
    this.#nodeID = nodeID
  }

  /** Undefined: there is no such thing. */
  async find(what: Owned): Promise<Owner | undefined> {
    const key = keyOf(what)
    const known = this.#remembered.get(key)
    if (!known) return this.read(what)
    this.#remembered.delete(key)
    this.#remembered.set(key, known)
    return known
  }

  /** As the row says at this moment. */
  async read(what: Owned): Promise<Owner | undefined> {
    const owner = await this.#store.ownerOf(what)
    this.forget(what)
    // The newest build of a template is another one soon.
    if (owner && what.kind !== 'template') this.remember(what, owner)
    return owner
  }

  /** As the owner itself has said. */
  remember(what: Owned, owner: Owner): void {
    if (owner.nodeID === this.#nodeID) return
    const key = keyOf(what)
    this.#remembered.delete(key)
    if (this.#remembered.size >= mostRemembered) this.#forgetOldest()
    this.#remembered.set(key, owner)
  }

  /** Its owner has changed, as this node knows by itself. */
  forget(what: Owned): void {
    this.#remembered.delete(keyOf(what))
  }

  #forgetOldest(): void {
    const [oldest] = this.#remembered.keys()
    if (oldest !== undefined) this.#remembered.delete(oldest)
  }
}

const keyOf = ({ kind, id }: Owned): string => `${kind} ${id}`
