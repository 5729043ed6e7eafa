/**
 * Which node has the sandbox that a signed file URL is for, where neither host nor header names one. Only the signature
 * tells, and each node can try it on the sandboxes that it has; so all are asked, and what was found is remembered.
 */
import { AppError } from '../../lib/app-error.ts'
import type { Membership } from './membership.ts'
import { type ClusterNode, isAway } from './node.ts'

export type SignedFile = { method: string; path: string }

/** Undefined: that node has no sandbox which the signature fits. */
export type AskForFile = (
  node: ClusterNode,
  file: SignedFile,
  signal: AbortSignal,
) => Promise<string | undefined>

/** Anybody may send a signature, and each makes every node work. */
const mostAtOnce = 16
const mostRemembered = 1000

export class FileSearch {
  readonly #membership: Pick<Membership, 'nodeID' | 'nodes'>
  readonly #ask: AskForFile
  readonly #found = new Map<string, string>()
  #underWay = 0

  constructor(membership: Pick<Membership, 'nodeID' | 'nodes'>, ask: AskForFile) {
    this.#membership = membership
    this.#ask = ask
  }

  /** The id of the sandbox, on another node. Rejects with `unavailable` while too many are looked for. */
  async find(file: SignedFile): Promise<string | undefined> {
    const key = `${file.method} ${file.path}`
    const known = this.#found.get(key)
    if (known !== undefined) return known
    if (this.#underWay >= mostAtOnce) throw tooMany()
    this.#underWay++
    try {
      const sandboxID = await this.#search(file)
      if (sandboxID !== undefined) this.#remember(key, sandboxID)
      return sandboxID
    } finally {
      this.#underWay--
    }
  }

  /** The first that has it ends the search. A node that does not answer has nothing that could be reached. */
  async #search(file: SignedFile): Promise<string | undefined> {
    const { nodeID: selfID } = this.#membership
    const nodes = (await this.#membership.nodes()).filter((node) => node.nodeID !== selfID && !isAway(node))
    const done = new AbortController()
    const asked = nodes.map(async (node) => {
      const found = await this.#ask(node, file, done.signal)
      if (found === undefined) throw new Error('It is not there.')
      return found
    })
    return Promise.any(asked)
      .catch(() => undefined)
      .finally(() => done.abort())
  }

  #remember(key: string, sandboxID: string): void {
    const [oldest] = this.#found.keys()
    if (this.#found.size >= mostRemembered && oldest !== undefined) this.#found.delete(oldest)
    this.#found.set(key, sandboxID)
  }
}

const tooMany = () =>
  new AppError(
    'unavailable',
    'The sandboxes of too many links are being looked for; try again in a moment.',
    {
      retry: { should: true, afterSeconds: 1 },
    },
  )
