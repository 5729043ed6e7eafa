/**
 * Separate users for each sandbox. The kernel counts terminals' owners, watchers, pending signals and
 * descriptors in flight per user, and accounts for a user namespace to its creator. So each slot gets a range
 * of user IDs that no other slot has, and a user namespace that was created by the first of them: nobody can
 * use up a neighbour's or the host root's limits. Files keep owners from one range that all sandboxes share;
 * these are mapped when they are mounted.
 */
import { closeSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { errorText } from '../../../lib/app-error.ts'
import { mappedIDs } from '../namespace/mapped-ids.ts'
import type { NamespaceThread } from '../namespace/namespace-thread.ts'
import type { NetworkTask } from '../namespace/slot-network.ts'
import type { Layout } from '../record/layout.ts'

/** The users of one slot, until its sandbox runs or its start fails. */
export type SlotUsers = {
  /** The host ID of the sandbox's root user. */
  firstID: number
  /** Paths of namespaces that exist as long as this process holds them. */
  namespace: string
  fileNamespace: string
  close(): Promise<void>
}

/** Far above the ranges of /etc/subuid, and below 2^31: the kernel lets no higher group send pings. */
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

  /** Tries it on the data folder, in a temporary mount namespace. Returns why it does not work here. */
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

  /** False if the kernel or the file system cannot map owners, so that sandboxes share one range of users. */
  get isUsable(): boolean {
    return this.#isUsable
  }

  /** `network` is made with them, because a sandbox may enter only one that belongs to its users. */
  async make(slot: number, network: NetworkTask | undefined): Promise<SlotUsers> {
    const firstID = this.#firstID(slot)
    const [inside, files] = await this.#namespaces.makeUsers({
      owner: firstID,
      map: `0 ${firstID} ${mappedIDs}\n`,
      // The host's root maps to itself: overlayfs makes its working files as the user who mounted it.
      fileMap: `0 0 1\n${this.#fileOwnerBase} ${firstID} ${mappedIDs}\n`,
      network,
    })
    const close = async () => {
      for (const each of [inside, files]) closeSync(each)
    }
    return { firstID, namespace: pathOf(inside), fileNamespace: pathOf(files), close }
  }

  /**
   * Shows these folders with the sandbox's users as owners, in that mount namespace only; without one it is
   * only tried.
   */
  cover(users: SlotUsers, mountNamespace: string | undefined, folders: readonly string[]): Promise<void> {
    return this.#namespaces.do({ cover: { mountNamespace, userNamespace: users.fileNamespace, folders } })
  }

  /** Warrens on one machine begin at different positions, derived from their names. */
  #firstID(slot: number): number {
    const offset = Number.parseInt(this.#layout.instance, 36) % ranges
    return (firstRange + ((offset + slot) % ranges)) * mappedIDs
  }
}

const pathOf = (fd: number): string => `/proc/${process.pid}/fd/${fd}`
