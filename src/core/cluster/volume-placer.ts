/**
 * Creates a volume on the node that gets the request; it stays there. A draining node lets another node
 * create it, because the volume would keep sandboxes on a machine that is to be emptied.
 */
import { AppError } from '../../lib/app-error.ts'
import { randomBelow } from '../../lib/ids.ts'
import type { DoorExchange, Forwarder } from './forwarder.ts'
import type { Membership } from './membership.ts'
import { isUnreachable } from './node.ts'

type VolumePlacerParts<Exchange extends DoorExchange> = {
  membership: Pick<Membership, 'nodeID' | 'isDraining' | 'nodes'>
  forwarder: Pick<Forwarder<Exchange>, 'isFromPeer' | 'refuseForCapacity' | 'send'>
}

export class VolumePlacer<Exchange extends DoorExchange> {
  readonly #parts: VolumePlacerParts<Exchange>

  constructor(parts: VolumePlacerParts<Exchange>) {
    this.#parts = parts
  }

  /** Returns false if the volume must be created here, and true if the request has been answered. */
  async placeVolume(body: () => Buffer, exchange: Exchange): Promise<boolean> {
    const { membership, forwarder } = this.#parts
    if (!membership.isDraining) return false
    if (forwarder.isFromPeer(exchange.request)) {
      // The peer did not know yet that this node is draining, and asks another node.
      forwarder.refuseForCapacity(exchange)
      return true
    }
    const others = (await membership.nodes()).filter(
      (node) => node.nodeID !== membership.nodeID && node.status === 'ready' && !isUnreachable(node),
    )
    while (others.length > 0) {
      const [node] = others.splice(randomBelow(others.length), 1)
      const outcome = await forwarder.send(node!.nodeID, exchange, { body: body(), needs: undefined })
      if (outcome === 'answered') return true
    }
    throw new AppError(
      'unavailable',
      'No node creates volumes now: this node is draining, and all others are away or draining. Try again later, or ' +
        'ask the operator.',
      { retry: { should: true, afterSeconds: 5 } },
    )
  }
}
