/**
 * Users of a sandbox's own. The kernel counts terminals' owners, watchers, pending signals and descriptors in
 * flight per user, and what a user namespace uses against the user who made it. So each slot gets a range of user
 * ids that no other slot has, and a user namespace that was made by the first of them: nobody can use up what
 * belongs to a neighbour or to the host's root. Files keep owners from one range that all sandboxes share; they
 * are mapped when they are mounted.
 */
import { closeSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { errorText } from '../../../lib/app-error.ts'
import { mappedIDs } from '../namespace/mapped-ids.ts'
import type { NamespaceThread } from '../namespace/namespace-thread.ts'
import type { NetworkTask } from '../namespace/slot-network.ts'
import type { Layout } from '../record/layout.ts'

/** The users of one slot, until its sandbox runs or is given up. */
export type SlotUsers = {
  /** The host's id of the sandbox's root. */
  firstID: number
  /** Paths of namespaces that are there as long as this process holds them. */
  namespace: string
  fileNamespace: string
  close(): Promise<void>
}

/** Far above what /etc/subuid gives to people, and below 2^31: the kernel lets no higher group send pings. */
const firstRange = 2048
const ranges = 30_000

export class OwnUsers {
  readonly #layout: Layout
  readonly #fileOwnerBase: number
  readonly #namespaces: NamespaceThread
  #isUsable = false

  constructor(layout: Layout, fileOwnerBase: number, namespaces: NamespaceThread) {
    this.#layout = layout
    this.#fileOwnerBase = fileOwnerBase
    this.#namespaces = namespaces
  }

  /** Tries it on the data folder, in a mount namespace that vanishes. Gives back why it does not work here. */
  async probe(): Promise<string | undefined> {
    try {
      await mkdir(this.#layout.data, { recursive: true })
      const users = await this.make(0, undefined)
      try {
        await this.cover(users, undefined, [this.#layout.data])
      } finally {
        await users.close()
      }
      this.#isUsable = true
      return undefined
    } catch (error) {
      return errorText(error)
    }
  }

  /** False: the kernel or the file system cannot map owners, so sandboxes share one range of users. */
  get isUsable(): boolean {
    return this.#isUsable
  }

  /** `network` is made with them, since a sandbox may enter only one that belongs to its users. */
  async make(slot: number, network: NetworkTask | undefined): Promise<SlotUsers> {
    const firstID = this.#firstID(slot)
    const [inside, files] = await this.#namespaces.makeUsers({
      owner: firstID,
      map: `0 ${firstID} ${mappedIDs}\n`,
      // The host's root stays itself: overlayfs makes its working files as the one who mounted it.
      fileMap: `0 0 1\n${this.#fileOwnerBase} ${firstID} ${mappedIDs}\n`,
      network,
    })
    const close = async () => {
      for (const each of [inside, files]) closeSync(each)
    }
    return { firstID, namespace: pathOf(inside), fileNamespace: pathOf(files), close }
  }

  /** Shows these folders with the sandbox's own users as owners, in that mount namespace only; without one it is only tried. */
  cover(users: SlotUsers, mountNamespace: string | undefined, folders: readonly string[]): Promise<void> {
    return this.#namespaces.do({ cover: { mountNamespace, userNamespace: users.fileNamespace, folders } })
  }

  /** Warrens beside each other begin at different places, as their names say. */
  #firstID(slot: number): number {
    const offset = Number.parseInt(this.#layout.instance, 36) % ranges
    return (firstRange + ((offset + slot) % ranges)) * mappedIDs
  }
}

const pathOf = (fd: number): string => `/proc/${process.pid}/fd/${fd}`
