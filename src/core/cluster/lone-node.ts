/**
 * A Warren without a cluster whose database other Warrens use too. It cannot reach what they own, and says
 * so.
 */
import type { DoorExchange, Forwarder } from './forwarder.ts'
import type { Owned, OwnerStore } from './owner-store.ts'
import { isOutOfReach } from './request-router.ts'

export class LoneNode implements Pick<Forwarder<DoorExchange>, 'forward'> {
  readonly #owners: Pick<OwnerStore, 'ownerOf'>
  readonly #nodeID: string

  constructor(owners: Pick<OwnerStore, 'ownerOf'>, nodeID: string) {
    this.#owners = owners
    this.#nodeID = nodeID
  }

  async forward(what: Owned): Promise<'here'> {
    await this.requireReachable(what)
    return 'here'
  }

  /** Rejects with `misdirected` if another Warren owns it. */
  async requireReachable(what: Owned): Promise<void> {
    const owner = await this.#owners.ownerOf(what)
    if (owner && owner.nodeID !== this.#nodeID) throw isOutOfReach(what, owner, 'this one')
  }
}
