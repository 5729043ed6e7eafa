/**
 * The users of a slot: a user namespace for its sandbox, with the network that belongs to it, and one that
 * maps files' owners.
 */
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { pinNamespaces, pinnedKinds } from './pinned-namespaces.ts'
import { makeNetwork, type NetworkTask } from './slot-network.ts'

export type UsersTask = {
  /** The creator of the sandbox's namespace, and its ID map. */
  owner: number
  map: string
  /** The ID map of the namespace for owners of files. */
  fileMap: string
  /**
   * A sandbox may enter only a network that belongs to its users. Without this task the network vanishes at
   * once.
   */
  network: NetworkTask | undefined
}

/** Returns descriptors of both namespaces, which exist as long as this process holds them. */
export function makeUsers({ owner, map, fileMap, network }: UsersTask): [inside: number, files: number] {
  const inside = openUserNamespace(pinnedKinds.user | pinnedKinds.network, owner, map, network)
  try {
    return [inside, openUserNamespace(pinnedKinds.user, 0, fileMap)]
  } catch (error) {
    closeSync(inside)
    throw error
  }
}

function openUserNamespace(kinds: number, owner: number, map: string, network?: NetworkTask): number {
  const { pid, end } = pinNamespaces(kinds, owner)
  try {
    writeFileSync(`/proc/${pid}/uid_map`, map)
    writeFileSync(`/proc/${pid}/gid_map`, map)
    if (network) makeNetwork(network, pid)
    return openSync(`/proc/${pid}/ns/user`, 'r')
  } finally {
    end()
  }
}
