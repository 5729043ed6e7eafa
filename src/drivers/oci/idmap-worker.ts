/**
 * A thread that enters the mount namespaces of slots, one at a time, and puts an idmapped clone of a folder over
 * that folder there: owners on disk stay those that all sandboxes share, while the sandbox's own processes see
 * them as its own users. It runs in a thread because a namespace is entered by a thread, and Node's other threads
 * must stay where they are. Everything it calls is synchronous.
 */
import { closeSync, openSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import { openNativeLibc } from '../../lib/native.ts'
import type { IdmapReply, IdmapRequest } from './idmapped-mounts.ts'

const flags = {
  closeOnExec: 0o2000000,
  /** CLONE_FS and CLONE_NEWNS. */
  fileSystem: 0x200,
  mountNamespace: 0x20000,
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

const libc = openNativeLibc('Sandboxes cannot have users of their own')
const unshare = libc.func('int unshare(int flags)')
const setns = libc.func('int setns(int descriptor, int kind)')
const openTree = libc.func('int open_tree(int folder, const char *path, unsigned int flags)')
const setAttributes = libc.func(
  'int mount_setattr(int mount, const char *path, unsigned int flags, void *attributes, size_t size)',
)
const moveMount = libc.func(
  'int move_mount(int from, const char *fromPath, int to, const char *toPath, unsigned int flags)',
)

function check(result: number, call: string): number {
  if (result < 0) throw libc.failure(call)
  return result
}

/** The `struct mount_attr`: what to set, what to clear, the propagation, the user namespace. */
function idmapAttributes(userNamespace: number): Uint8Array {
  return new Uint8Array(new BigUint64Array([idmapAttribute, 0n, 0n, BigInt(userNamespace)]).buffer)
}

function cover(path: string, attributes: Uint8Array): void {
  const tree = check(openTree(currentFolder, path, flags.cloneTree | flags.closeOnExec), `open_tree ${path}`)
  try {
    check(setAttributes(tree, '', flags.emptyPath, attributes, attributes.length), `mount_setattr ${path}`)
    const how = flags.moveFromDescriptor | flags.followTarget
    check(moveMount(tree, '', currentFolder, path, how), `move_mount ${path}`)
  } finally {
    closeSync(tree)
  }
}

check(unshare(flags.fileSystem), 'unshare')
const home = openSync('/proc/thread-self/ns/mnt', 'r')

function coverAll({ mountNamespace, userNamespace, folders }: IdmapRequest): void {
  const opened: number[] = []
  try {
    const [mounts, users] = [mountNamespace, userNamespace].map((path) => {
      const descriptor = openSync(path, 'r')
      opened.push(descriptor)
      return descriptor
    })
    check(setns(mounts!, flags.mountNamespace), `setns ${mountNamespace}`)
    try {
      const attributes = idmapAttributes(users!)
      for (const folder of folders) cover(folder, attributes)
    } finally {
      // A thread that could not come home must not serve the next sandbox: this ends it.
      if (setns(home, flags.mountNamespace) < 0) process.exit(1)
    }
  } finally {
    for (const descriptor of opened) closeSync(descriptor)
  }
}

parentPort!.on('message', (request: IdmapRequest) => {
  let failure: IdmapReply['failure']
  try {
    coverAll(request)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    failure = { code, message }
  }
  parentPort!.postMessage({ number: request.number, failure } satisfies IdmapReply)
})
