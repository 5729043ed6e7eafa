/** A Warren on its own whose database others use too, each for itself: what those have it can only tell. */
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

  /** Rejects with `misdirected` when another Warren has it. */
  async requireReachable(what: Owned): Promise<void> {
    const owner = await this.#owners.ownerOf(what)
    if (owner && owner.nodeID !== this.#nodeID) throw isOutOfReach(what, owner, 'this one')
  }
}
