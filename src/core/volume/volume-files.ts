/** The ports to the disks of volumes on this machine, and to the files on them. */
import type { Readable } from 'node:stream'
import type { DiskMount } from '../ports/driver.ts'

/** A disk that can be mounted until it is released. */
export type AcquiredDisk = {
  disk: Omit<DiskMount, 'path'>
  /** May be called again after a rejection. */
  release(): Promise<void>
}

export interface VolumeDisks {
  /**
   * Rejects with `no_space` if the machine has no disk space left. Replaces leftovers of an earlier attempt.
   */
  create(volumeID: string, sizeMB: number): Promise<void>
  /** Deletes the disk with its contents. Succeeds if there is none. */
  remove(volumeID: string): Promise<void>
  /** The volumes that have disks, including incomplete ones. */
  list(): Promise<string[]>
  /** Rejects with `unavailable` if the disk does not exist. */
  acquire(volumeID: string): Promise<AcquiredDisk>
  /** Holds the disk while the work runs. Rejects with `unavailable` if the disk does not exist. */
  useFiles<T>(volumeID: string, work: (files: VolumeFiles) => Promise<T>): Promise<T>
  /**
   * Bytes that disks may still take from the machine's disk, if its file system cannot allocate them ahead.
   */
  promisedBytes(): Promise<number>
  /** Detaches disks that nobody has used for a while. */
  closeIdle(): Promise<void>
  close(): Promise<void>
}

export type VolumeEntry = {
  name: string
  type: 'unknown' | 'file' | 'directory' | 'symlink'
  /** The path from the root of the volume. */
  path: string
  size: number
  /** Permissions, including the setuid, setgid and sticky bits. */
  mode: number
  /** Owner and group as sandboxes see them. */
  uid: number
  gid: number
  /** Times in milliseconds. */
  atime: number
  mtime: number
  ctime: number
  /** The target of a symbolic link. */
  target?: string
}

export type EntryOwner = { uid?: number; gid?: number; mode?: number }

/**
 * `length` bytes of a file from `start` on; `size` is that of the whole file. The stream fails if the file
 * becomes shorter.
 */
export type FileContent = { size: number; start: number; length: number; stream: Readable }

/** Chooses the range to read of a file of this size, or throws. */
export type ChooseRange = (size: number) => { start: number; length: number }

/**
 * The files of one volume, by path from its root. Symbolic links are resolved within the volume, whatever
 * they say; nothing outside is ever reached. Rejects with `not_found` for a missing path and with `no_space`
 * for a full disk.
 */
export interface VolumeFiles {
  /** Does not follow a symbolic link. */
  stat(path: string): Promise<VolumeEntry>
  change(path: string, owner: EntryOwner): Promise<VolumeEntry>
  /**
   * Yields the entries below a folder, down to `depth`, in parts. Rejects before the first part if the path
   * is not a folder.
   */
  list(path: string, depth: number): AsyncGenerator<VolumeEntry[]>
  /** `parents`: create the folders above too, and succeed if the folder exists already. */
  makeFolder(path: string, owner: EntryOwner, parents: boolean): Promise<VolumeEntry>
  read(path: string, choose: ChooseRange): Promise<FileContent>
  /**
   * The file exists completely or not at all. `replace`: overwrite an existing file; otherwise rejects with
   * `already_exists`.
   */
  write(
    path: string,
    content: AsyncIterable<Buffer>,
    owner: EntryOwner,
    replace: boolean,
  ): Promise<VolumeEntry>
  /** Removes a folder with its contents. */
  remove(path: string): Promise<void>
}
