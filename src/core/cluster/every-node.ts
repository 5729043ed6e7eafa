/**
 * Sends a request that every node carries out for its own part to the other nodes, and collects their
 * answers.
 */
import type { Log } from '../../lib/log.ts'
import type { Membership } from './membership.ts'
import { type ClusterNode, isUnreachable } from './node.ts'

/**
 * The request at this node's door, which the others get too. Core reads nothing of it but the URL, for the
 * log.
 */
type SharedRequest = { url?: string | undefined }

/** Asks a node for its part. Rejects if the node does not answer or reports a failure. */
export type AskNode<Request extends SharedRequest> = (
  node: ClusterNode,
  request: Request,
  body: unknown,
) => Promise<unknown>

type EveryNodeParts<Request extends SharedRequest> = {
  membership: Pick<Membership, 'nodeID' | 'nodesNow'>
  ask: AskNode<Request>
  log: Log
}

type OtherNodes = {
  /** The answers of the nodes that succeeded. */
  answers: unknown[]
  /** IDs of nodes that are away or failed, or whose answer was lost. Their part may or may not be done. */
  missing: string[]
  /** IDs of the nodes that succeeded. */
  reached: string[]
}

export class EveryNode<Request extends SharedRequest> {
  readonly #parts: EveryNodeParts<Request>

  constructor(parts: EveryNodeParts<Request>) {
    this.#parts = parts
  }

  /** Never rejects because a node is away or fails. */
  async askOthers(request: Request, body: unknown): Promise<OtherNodes> {
    const { membership } = this.#parts
    // Reads the list anew, because a node that has just joined may have a part already.
    const others = (await membership.nodesNow()).filter(({ nodeID }) => nodeID !== membership.nodeID)
    const [missing, reached]: [string[], string[]] = [[], []]
    const asked = others.map(async (node) => {
      const answer = await this.#ask(node, request, body)
      const outcome = answer ? reached : missing
      outcome.push(node.nodeID)
      return answer
    })
    const answers = (await Promise.all(asked)).flatMap((answer) => answer ?? [])
    return { answers, missing, reached }
  }

  async #ask(node: ClusterNode, request: Request, body: unknown): Promise<[unknown] | undefined> {
    const { ask, log } = this.#parts
    if (isUnreachable(node)) return undefined
    try {
      return [await ask(node, request, body)]
    } catch (error) {
      const { nodeID } = node
      log.warn({ nodeID, path: request.url, err: error }, 'A node failed to do its part of a request.')
      return undefined
    }
  }
}
