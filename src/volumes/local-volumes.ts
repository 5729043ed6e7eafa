/**
 * Volumes on the disk of this machine, one image file each. Knows images, loop devices and mounts; must not
 * know teams, names of volumes or sandboxes.
 */
import { access, mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { AcquiredDisk, VolumeDisks, VolumeFiles } from '../core/volume/volume-files.ts'
import { AppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { ifPresent } from '../lib/if-present.ts'
import { KeyedLock } from '../lib/keyed-lock.ts'
import type { Log } from '../lib/log.ts'
import {
  allocateAll,
  filesFolder,
  incomingFolder,
  makeImage,
  missingBytes,
  mountOptions,
} from './disk-image.ts'
import { EntryOwners } from './entry.ts'
import { attachLoop, type LoopDevice } from './loop-device.ts'
import { openFolder } from './path-walk.ts'
import { PrivateMounts } from './private-mounts.ts'
import { listLeftovers, removeLeftovers } from './removal.ts'
import { VolumeContent, type VolumeFolders } from './volume-content.ts'

type LocalVolumesOptions = {
  folder: string
  /** The host's user ID for the root user of sandboxes, on disk. */
  firstOwner: number
  /** True if the machine's disk can give this many bytes and still has its free reserve. */
  hasSpaceFor: (bytes: number) => Promise<boolean>
  clock: Clock
  log: Log
}

/** Its folders are open as long as it is mounted or somebody uses it. */
type MountedVolume = {
  content: VolumeContent
  folders: VolumeFolders
  users: number
  usedAt: number
  isMounted: boolean
}

const idleMs = 5 * 60_000
/** The owner of a volume's root: the usual user of sandboxes. */
const rootOwner = 1000
const suffix = '.ext4'
const mountPoints = 'mounted'
/** The key of the lock for allocating blocks; volumes have UUIDs. */
const allocation = 'allocation'
const mebibyte = 1024 * 1024
/**
 * An image may lack this much without a warning: a file system can free a few blocks when it writes zeros.
 */
const maxMissingBytes = mebibyte

export class LocalVolumes implements VolumeDisks {
  readonly #options: LocalVolumesOptions
  readonly #owners: EntryOwners
  readonly #mounts: PrivateMounts
  /** Serializes the attaching and mounting of each volume. */
  readonly #locks = new KeyedLock()
  readonly #mounted = new Map<string, MountedVolume>()
  /** Volumes for which a warning about unallocated blocks was logged. */
  readonly #sparse = new Set<string>()
  /** This file system cannot allocate blocks ahead, so images may need their missing blocks at any time. */
  #cannotAllocate = false

  constructor(options: LocalVolumesOptions) {
    this.#options = options
    this.#owners = new EntryOwners(options.firstOwner)
    this.#mounts = new PrivateMounts(join(options.folder, mountPoints))
  }

  /** Creates the folder, and removes incomplete images. */
  async open(): Promise<void> {
    const { folder } = this.#options
    await mkdir(join(folder, mountPoints), { recursive: true, mode: 0o700 })
    const unfinished = (await readdir(folder)).filter((name) => name.startsWith('making-'))
    for (const name of unfinished) await rm(join(folder, name), { recursive: true, force: true })
  }

  create(volumeID: string, sizeMB: number): Promise<void> {
    const owner = this.#owners.toHost(rootOwner)
    return this.#locks.run(volumeID, () =>
      // One at a time: blocks that one volume takes must not count as free for another.
      this.#locks.run(allocation, async () => {
        if (!(await this.#options.hasSpaceFor(sizeMB * mebibyte + (await this.promisedBytes())))) {
          throw new AppError(
            'no_space',
            `There is too little disk space for a volume: it takes its ${sizeMB} MiB when it is created. Delete ` +
              'volumes, templates, snapshots or paused sandboxes, or ask the operator for smaller volumes ' +
              '(WARREN_VOLUME_MB) or a bigger disk.',
            { retry: { should: false } },
          )
        }
        const { isAllocated } = await makeImage(this.#image(volumeID), sizeMB, owner)
        if (!isAllocated) this.#cannotAllocate = true
      }),
    )
  }

  /**
   * Bytes that volumes may still need of the machine's disk, if its file system cannot allocate them ahead.
   */
  async promisedBytes(): Promise<number> {
    if (!this.#cannotAllocate) return 0
    const missing = await Promise.all(
      (await this.list()).map((volumeID) => ifPresent(missingBytes(this.#image(volumeID)))),
    )
    return missing.reduce<number>((total, bytes) => total + (bytes ?? 0), 0)
  }

  remove(volumeID: string): Promise<void> {
    return this.#locks.run(volumeID, async () => {
      await this.#unmount(volumeID)
      await rm(this.#image(volumeID), { force: true })
      this.#sparse.delete(volumeID)
    })
  }

  async list(): Promise<string[]> {
    const names = await readdir(this.#options.folder)
    return names.flatMap((name) => (name.endsWith(suffix) ? [name.slice(0, -suffix.length)] : []))
  }

  acquire(volumeID: string): Promise<AcquiredDisk> {
    return this.#locks.run(volumeID, async () => {
      const device = await this.#attach(volumeID)
      const disk = { device: device.path, options: mountOptions, folder: filesFolder }
      return { disk, release: () => device.close() }
    })
  }

  async useFiles<T>(volumeID: string, work: (files: VolumeFiles) => Promise<T>): Promise<T> {
    const volume = await this.#locks.run(volumeID, async () => {
      const mounted = this.#mounted.get(volumeID) ?? (await this.#mount(volumeID))
      mounted.users++
      return mounted
    })
    return work(volume.content).finally(() => this.#leave(volume))
  }

  async closeIdle(): Promise<void> {
    const before = this.#options.clock.now() - idleMs
    for (const [volumeID, { usedAt }] of this.#mounted) {
      if (usedAt > before) continue
      await this.#locks.run(volumeID, async () => {
        const { users, usedAt: lately } = this.#mounted.get(volumeID) ?? { users: 1, usedAt: 0 }
        if (users === 0 && lately <= before) await this.#unmount(volumeID)
      })
    }
  }

  async close(): Promise<void> {
    for (const volumeID of [...this.#mounted.keys()]) {
      await this.#locks.run(volumeID, () => this.#unmount(volumeID))
    }
    await this.#mounts.close()
  }

  async #mount(volumeID: string): Promise<MountedVolume> {
    const { clock } = this.#options
    const device = await this.#attach(volumeID)
    try {
      const path = await this.#mounts.mount(volumeID, device.path, mountOptions)
      const files = await openFolder(join(path, filesFolder))
      const folders = { files, incoming: await openFolder(join(path, incomingFolder)) }
      const content = new VolumeContent(folders, this.#owners)
      const mounted = { content, folders, users: 0, usedAt: clock.now(), isMounted: true }
      await this.#removeLeftovers(volumeID, mounted)
      this.#mounted.set(volumeID, mounted)
      return mounted
    } finally {
      await device.close()
    }
  }

  /**
   * Removes, in the background, unfinished uploads and removals of a process that died. No request of this
   * process has begun yet.
   */
  async #removeLeftovers(volumeID: string, mounted: MountedVolume): Promise<void> {
    const { incoming } = mounted.folders
    const names = await listLeftovers(incoming)
    mounted.users++
    void removeLeftovers(incoming, names)
      .catch((error) => {
        this.#options.log.warn(
          { volumeID, err: error },
          'Unfinished uploads of a volume could not be removed.',
        )
      })
      .finally(() => this.#leave(mounted))
  }

  async #unmount(volumeID: string): Promise<void> {
    const mounted = this.#mounted.get(volumeID)
    if (!mounted) return
    this.#mounted.delete(volumeID)
    mounted.isMounted = false
    await closeUnused(mounted)
    await this.#mounts.unmount(volumeID)
  }

  async #leave(mounted: MountedVolume): Promise<void> {
    mounted.users--
    mounted.usedAt = this.#options.clock.now()
    await closeUnused(mounted)
  }

  async #attach(volumeID: string): Promise<LoopDevice> {
    const image = await this.#findImage(volumeID)
    await this.#locks.run(allocation, () => this.#fill(volumeID, image))
    return attachLoop(image)
  }

  /**
   * An image of an earlier version has only its written blocks allocated. Allocates the others if the disk
   * has the space.
   */
  async #fill(volumeID: string, image: string): Promise<void> {
    const missing = await missingBytes(image)
    if (missing <= maxMissingBytes || this.#cannotAllocate) return
    if (await this.#options.hasSpaceFor(missing)) {
      this.#cannotAllocate = !(await allocateAll(image))
      return void this.#sparse.delete(volumeID)
    }
    if (this.#sparse.has(volumeID)) return
    this.#sparse.add(volumeID)
    this.#options.log.warn(
      { volumeID, missingMB: Math.ceil(missing / mebibyte) },
      'The disk has too little space to allocate the whole volume. Writes to the volume will fail once the disk is full.',
    )
  }

  async #findImage(volumeID: string): Promise<string> {
    const image = this.#image(volumeID)
    if (await ifPresent(access(image).then(() => true))) return image
    throw new AppError('unavailable', 'its disk is missing on this machine; ask the operator to restore it')
  }

  #image(volumeID: string): string {
    return join(this.#options.folder, `${volumeID}${suffix}`)
  }
}

/** Waits for all users: after a close, the number of a descriptor could mean another file. */
async function closeUnused({ isMounted, users, folders }: MountedVolume): Promise<void> {
  if (isMounted || users > 0) return
  await folders.files.close()
  await folders.incoming.close()
}
