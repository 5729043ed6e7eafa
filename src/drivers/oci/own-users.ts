/**
 * Users of a sandbox's own. The kernel counts terminals' owners, watchers, pending signals and descriptors in
 * flight per user, and what a user namespace uses against the user who made it. So each slot gets a range of user
 * ids that no other slot has, and a user namespace that was made by the first of them: nobody can use up what
 * belongs to a neighbour or to the host's root. Files keep owners from one range that all sandboxes share; they
 * are mapped when they are mounted.
 */
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { errorText } from '../../lib/app-error.ts'
import { holdCommand } from '../../lib/run-command.ts'
import { mappedIDs } from './container-spec.ts'
import type { Layout } from './layout.ts'
import type { NamespaceThread } from './namespace/namespace-thread.ts'

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
      await using trial = await holdNamespaces(['--mount'])
      const users = await this.make(0, async () => {})
      try {
        await this.cover(users, `/proc/${trial.pid}/ns/mnt`, [this.#layout.data])
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

  /**
   * A sandbox may enter only a network that belongs to its users: `useNetwork` is called with the id of a process in
   * one, which lives until the call is over.
   */
  async make(slot: number, useNetwork: (pid: number) => Promise<void>): Promise<SlotUsers> {
    const firstID = this.#firstID(slot)
    const opened = [
      openUserNamespace(firstID, `0 ${firstID} ${mappedIDs}\n`, useNetwork),
      // The host's root stays itself: overlayfs makes its working files as the one who mounted it.
      openUserNamespace(0, `0 0 1\n${this.#fileOwnerBase} ${firstID} ${mappedIDs}\n`),
    ]
    const close = async () => {
      for (const each of await Promise.allSettled(opened)) {
        if (each.status === 'fulfilled') closeSync(each.value)
      }
    }
    try {
      const [inside, files] = await Promise.all(opened)
      return { firstID, namespace: pathOf(inside!), fileNamespace: pathOf(files!), close }
    } catch (error) {
      await close()
      throw error
    }
  }

  /** Shows these folders with the sandbox's own users as owners, in that mount namespace only. */
  cover(users: SlotUsers, mountNamespace: string, folders: readonly string[]): Promise<void> {
    return this.#namespaces.do({ cover: { mountNamespace, userNamespace: users.fileNamespace, folders } })
  }

  /** Warrens beside each other begin at different places, as their names say. */
  #firstID(slot: number): number {
    const offset = Number.parseInt(this.#layout.instance, 36) % ranges
    return (firstRange + ((offset + slot) % ranges)) * mappedIDs
  }
}

const pathOf = (fd: number): string => `/proc/${process.pid}/fd/${fd}`

/** Gives a descriptor of the namespace. Files below /proc are written at once: they never wait for a disk. */
async function openUserNamespace(
  owner: number,
  map: string,
  useNetwork?: (pid: number) => Promise<void>,
): Promise<number> {
  await using held = await holdNamespaces(useNetwork ? ['--user', '--net'] : ['--user'], owner)
  writeFileSync(`/proc/${held.pid}/uid_map`, map)
  writeFileSync(`/proc/${held.pid}/gid_map`, map)
  await useNetwork?.(held.pid)
  return openSync(`/proc/${held.pid}/ns/user`, 'r')
}

type HeldNamespaces = AsyncDisposable & { pid: number }

/** A process in namespaces of its own, which holds them until it is disposed of or this process dies. */
async function holdNamespaces(
  kinds: readonly ('--user' | '--net' | '--mount')[],
  owner = 0,
): Promise<HeldNamespaces> {
  const become = ['setpriv', `--reuid=${owner}`, `--regid=${owner}`, '--clear-groups']
  const hold = ['unshare', ...kinds, 'cat']
  const [program, ...args] = owner === 0 ? hold : [...become, ...hold]
  const held = await holdCommand(program!, args)
  return { pid: held.pid, [Symbol.asyncDispose]: () => held.end() }
}
