/**
 * Finds the node of the sandbox that a signed file URL is for, when neither host nor header names the
 * sandbox. A node can check the signature only against its own sandboxes, so all nodes are asked; results are
 * cached.
 */
import { AppError } from '../../lib/app-error.ts'
import type { Membership } from './membership.ts'
import { type ClusterNode, isUnreachable } from './node.ts'

export type SignedFile = { method: string; path: string }

/** Undefined if no sandbox of that node fits the signature. */
export type AskForFile = (
  node: ClusterNode,
  file: SignedFile,
  signal: AbortSignal,
) => Promise<string | undefined>

/** Limits concurrent searches: anybody may send a signature, and each search makes every node work. */
const maxAtOnce = 16
const maxRemembered = 1000

export class FileSearch {
  readonly #membership: Pick<Membership, 'nodeID' | 'nodes'>
  readonly #ask: AskForFile
  readonly #found = new Map<string, string>()
  #underWay = 0

  constructor(membership: Pick<Membership, 'nodeID' | 'nodes'>, ask: AskForFile) {
    this.#membership = membership
    this.#ask = ask
  }

  /**
   * Returns the ID of the sandbox, on another node. Rejects with `unavailable` while too many searches run.
   */
  async find(file: SignedFile): Promise<string | undefined> {
    const key = `${file.method} ${file.path}`
    const known = this.#found.get(key)
    if (known !== undefined) return known
    if (this.#underWay >= maxAtOnce) throw tooMany()
    this.#underWay++
    try {
      const sandboxID = await this.#search(file)
      if (sandboxID !== undefined) this.#remember(key, sandboxID)
      return sandboxID
    } finally {
      this.#underWay--
    }
  }

  /** The first hit ends the search. A sandbox on a node that does not answer could not be reached anyway. */
  async #search(file: SignedFile): Promise<string | undefined> {
    const { nodeID: selfID } = this.#membership
    const nodes = (await this.#membership.nodes()).filter(
      (node) => node.nodeID !== selfID && !isUnreachable(node),
    )
    const done = new AbortController()
    const asked = nodes.map(async (node) => {
      const found = await this.#ask(node, file, done.signal)
      if (found === undefined) throw new Error('The node has no sandbox for this signature.')
      return found
    })
    return Promise.any(asked)
      .catch(() => undefined)
      .finally(() => done.abort())
  }

  #remember(key: string, sandboxID: string): void {
    const [oldest] = this.#found.keys()
    if (this.#found.size >= maxRemembered && oldest !== undefined) this.#found.delete(oldest)
    this.#found.set(key, sandboxID)
  }
}

const tooMany = () =>
  new AppError('unavailable', 'Too many signed file links are being looked up. Try again in a moment.', {
    retry: { should: true, afterSeconds: 1 },
  })
