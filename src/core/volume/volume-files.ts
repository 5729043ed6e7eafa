/** The ports to what volumes hold: their disks on this machine, and the files in them. */
import type { Readable } from 'node:stream'
import type { DiskMount } from '../ports/driver.ts'

/** A disk that is there to be mounted, as long as it is held. */
export type HeldDisk = {
  disk: Omit<DiskMount, 'path'>
  /** After a rejection it can be called again. */
  release(): Promise<void>
}

export interface VolumeDisks {
  /** Rejects with `no_space` when the machine has none left. What an earlier attempt left is replaced. */
  create(volumeID: string, sizeMB: number): Promise<void>
  /** Deletes the disk with all it holds. Already gone is success. */
  remove(volumeID: string): Promise<void>
  /** The volumes whose disks are there, half-made ones included. */
  list(): Promise<string[]>
  /** Rejects with `unavailable` when the disk is not there. */
  hold(volumeID: string): Promise<HeldDisk>
  /** The same. The disk stays as long as the work goes on. */
  useFiles<T>(volumeID: string, work: (files: VolumeFiles) => Promise<T>): Promise<T>
  /** Bytes that disks may still need of the machine's, where its file system cannot set them aside. */
  promisedBytes(): Promise<number>
  /** Lets go of disks that nobody has used for a while. */
  closeIdle(): Promise<void>
  close(): Promise<void>
}

export type VolumeEntry = {
  name: string
  type: 'unknown' | 'file' | 'directory' | 'symlink'
  /** From the root of the volume. */
  path: string
  size: number
  /** Permissions, with the bits for setuid, setgid and sticky. */
  mode: number
  /** As sandboxes see them. */
  uid: number
  gid: number
  /** Milliseconds. */
  atime: number
  mtime: number
  ctime: number
  /** Where a symbolic link leads. */
  target?: string
}

export type EntryOwner = { uid?: number; gid?: number; mode?: number }

/** Bytes of a file: `length` of them from `start`, of `size` in all. The stream fails when the file becomes shorter. */
export type FileContent = { size: number; start: number; length: number; stream: Readable }

/** Chooses what to read of a file of that size, or throws. */
export type ChooseRange = (size: number) => { start: number; length: number }

/**
 * Files of one volume by path from its root. A symbolic link is looked up within the volume, whatever it says; nothing
 * outside is ever reached. What is not there is `not_found`; a full disk is `no_space`.
 */
export interface VolumeFiles {
  /** Does not follow a symbolic link. */
  stat(path: string): Promise<VolumeEntry>
  change(path: string, owner: EntryOwner): Promise<VolumeEntry>
  /** The entries below a folder, to that depth, in parts. A path that is no folder rejects before the first part. */
  list(path: string, depth: number): AsyncGenerator<VolumeEntry[]>
  /** `parents`: also the folders above it; then one that is there already is success. */
  makeFolder(path: string, owner: EntryOwner, parents: boolean): Promise<VolumeEntry>
  read(path: string, choose: ChooseRange): Promise<FileContent>
  /** The file is there whole or not at all. `replace`: one that is there already is replaced; else it is `already_exists`. */
  write(
    path: string,
    content: AsyncIterable<Buffer>,
    owner: EntryOwner,
    replace: boolean,
  ): Promise<VolumeEntry>
  /** A folder goes with all it holds. */
  remove(path: string): Promise<void>
}
