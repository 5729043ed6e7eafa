/** Work that every node does its own part of: it is asked of the others with the same request, and added up at the door. */
import type { Log } from '../../lib/log.ts'
import type { Membership } from './membership.ts'
import { type ClusterNode, isAway } from './node.ts'

/** The request at this node's door, which the others get too. Core knows no more of it than what to call it in the log. */
export type SharedRequest = { url?: string | undefined }

/** Asks a node for its part. Rejects when it does not answer, or answers with a failure. */
export type AskNode<Request extends SharedRequest> = (
  node: ClusterNode,
  request: Request,
  body: unknown,
) => Promise<unknown>

export type EveryNodeParts<Request extends SharedRequest> = {
  membership: Pick<Membership, 'nodeID' | 'nodesNow'>
  ask: AskNode<Request>
  log: Log
}

export type OtherNodes = {
  /** What the others answered. */
  answers: unknown[]
  /** Ids of the nodes that are away or failed, or whose answer was lost: it is not known that their part is done. */
  missing: string[]
}

export class EveryNode<Request extends SharedRequest> {
  readonly #parts: EveryNodeParts<Request>

  constructor(parts: EveryNodeParts<Request>) {
    this.#parts = parts
  }

  /** Never rejects because of a node that is away or fails. */
  async askOthers(request: Request, body: unknown): Promise<OtherNodes> {
    const { membership } = this.#parts
    // One that has just joined may have a part already.
    const others = (await membership.nodesNow()).filter(({ nodeID }) => nodeID !== membership.nodeID)
    const missing: string[] = []
    const asked = others.map(async (node) => {
      const answer = await this.#ask(node, request, body)
      if (!answer) missing.push(node.nodeID)
      return answer
    })
    return { answers: (await Promise.all(asked)).flatMap((answer) => answer ?? []), missing }
  }

  async #ask(node: ClusterNode, request: Request, body: unknown): Promise<[unknown] | undefined> {
    const { ask, log } = this.#parts
    if (isAway(node)) return undefined
    try {
      return [await ask(node, request, body)]
    } catch (error) {
      const { nodeID } = node
      log.warn({ nodeID, path: request.url, err: error }, 'A node did not do its part of a request.')
      return undefined
    }
  }
}
