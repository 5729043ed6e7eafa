/**
 * Maps the owners of folders to a sandbox's own users. On disk, the files of roots, layers and disks belong to one range
 * of users that all sandboxes share. In the mount namespace of its slot each sandbox sees an idmapped clone of each folder,
 * mounted over that folder, with owners from a range of its own. So the kernel's limits per user are each sandbox's own.
 */
import { closeSync, openSync } from 'node:fs'
import { inNamespace, inPassingMounts, kernelCall } from './namespace-calls.ts'

/**
 * Paths of namespace files. The user namespace holds the mapping of owners. If `mountNamespace` is undefined, the mapping
 * is only tried, in a mount namespace that is gone afterwards.
 */
export type CoverTask = {
  mountNamespace: string | undefined
  userNamespace: string
  folders: readonly string[]
}

const flags = {
  closeOnExec: 0o2000000,
  /** OPEN_TREE_CLONE, AT_EMPTY_PATH and MOVE_MOUNT_F_EMPTY_PATH. */
  cloneTree: 1,
  emptyPath: 0x1000,
  moveFromDescriptor: 4,
  /** MOVE_MOUNT_T_SYMLINKS: the layer of the base template is a link to its root. */
  followTarget: 0x10,
} as const
const currentFolder = -100
/** MOUNT_ATTR_IDMAP. */
const idmapAttribute = 0x100000n

const openTree = kernelCall('int open_tree(int folder, const char *path, unsigned int flags)')
const setAttributes = kernelCall(
  'int mount_setattr(int mount, const char *path, unsigned int flags, void *attributes, size_t size)',
)
const moveMount = kernelCall(
  'int move_mount(int from, const char *fromPath, int to, const char *toPath, unsigned int flags)',
)

export function coverFolders({ mountNamespace, userNamespace, folders }: CoverTask): void {
  const users = openSync(userNamespace, 'r')
  try {
    const attributes = idmapAttributes(users)
    const coverAll = () => {
      for (const folder of folders) cover(folder, attributes)
    }
    if (mountNamespace === undefined) inPassingMounts(coverAll)
    else inNamespace('mounts', mountNamespace, coverAll)
  } finally {
    closeSync(users)
  }
}

/** The `struct mount_attr`: attributes to set, attributes to clear, propagation, user namespace. */
function idmapAttributes(userNamespace: number): Uint8Array {
  return new Uint8Array(new BigUint64Array([idmapAttribute, 0n, 0n, BigInt(userNamespace)]).buffer)
}

function cover(path: string, attributes: Uint8Array): void {
  const tree = openTree(path, currentFolder, path, flags.cloneTree | flags.closeOnExec)
  try {
    setAttributes(path, tree, '', flags.emptyPath, attributes, attributes.length)
    moveMount(path, tree, '', currentFolder, path, flags.moveFromDescriptor | flags.followTarget)
  } finally {
    closeSync(tree)
  }
}
