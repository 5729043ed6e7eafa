/**
 * The layers under a sandbox's writable disk: disks of the sandboxes it was started from, its own few files
 * in /etc, and below them the template's root. So a sandbox's edits in /etc outlive its identity.
 */
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  type Stats,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { agentMount, type Layout } from '../record/layout.ts'
import type { SandboxRecord } from '../record/records.ts'

const seedName = 'seed'
export const rootsName = 'roots'
/** The name of a sandbox's own disk in its folder, and in that of a snapshot. */
export const diskName = 'disk.ext4'
/**
 * Disks of earlier sandboxes below its own, the nearest first. Hard links: removing the last folder frees
 * them.
 */
export const layerName = (number: number): string => `layer-${number}.ext4`
/** Maximum number of layers. Each costs a mount at every start and a look-up for every path not found above it. */
export const maxDiskLayers = 8

export type SeedOptions = {
  uidBase: number
  dnsServers: readonly string[]
  /** The runtime would mount a memory file system over an empty /tmp, so a file is put there. */
  occupiesTmp: boolean
  /** Folders to mount something at, beside the usual ones. */
  mountPoints?: readonly string[]
  /** Links to make, by their path inside. A link is left out if its parent is not a real folder in the root. */
  links?: readonly { path: string; target: string }[]
}

/**
 * In its own layer, not on the disk: it is written without entering the slot, and the sandbox can still edit
 * it.
 */
export function writeSeed(folder: string, record: SandboxRecord, options: SeedOptions): void {
  const { uidBase, dnsServers, occupiesTmp, mountPoints = [], links = [] } = options
  const seed = join(folder, seedName)
  mkdirSync(seed, { recursive: true })
  own(seed, 0o755, uidBase)
  // Real folders, whatever the image has there: root inside could redirect a link, but not a mount point.
  for (const name of [agentMount, ...mountPoints, 'dev', 'proc', 'sys']) {
    mkdirSync(join(seed, name))
    own(join(seed, name), 0o755, uidBase)
  }
  if (occupiesTmp) occupyTmp(seed, uidBase)
  for (const { path, target } of links) {
    if (makeLike(seed, record, dirname(path))) symlinkSync(target, join(seed, path))
  }
  if (!makeLike(seed, record, 'etc')) return
  for (const [name, text] of Object.entries(etcFiles(record, dnsServers))) {
    const path = join(seed, 'etc', name)
    writeFileSync(path, text, { mode: 0o644 })
    chownSync(path, uidBase, uidBase)
  }
}

/** Makes a folder with the owner and mode that it has in the root. False if the root has a link or nothing there. */
function makeLike(seed: string, record: SandboxRecord, path: string): boolean {
  if (path === '.') return true
  const found = findInRoots(record, path)
  if (!found?.isDirectory() || !makeLike(seed, record, dirname(path))) return false
  const folder = join(seed, path)
  if (existsSync(folder)) return true
  mkdirSync(folder)
  chownSync(folder, found.uid, found.gid)
  chmodSync(folder, found.mode & 0o7777)
  return true
}

export const isFolderInRoot = (record: SandboxRecord, path: string): boolean =>
  findInRoots(record, path)?.isDirectory() ?? false

/** The entry that the sandbox will see: that of the uppermost layer which has the path. */
function findInRoots(record: SandboxRecord, path: string): Stats | undefined {
  for (const root of rootsOf(record)) {
    const found = findWithin(root, path)
    if (found) return found
  }
  return undefined
}

/** Follows no link, because links lead elsewhere on the host. Returns the first path component that is not a folder. */
function findWithin(root: string, path: string): Stats | undefined {
  const parent = dirname(path)
  const above = parent === '.' ? undefined : findWithin(root, parent)
  if (parent !== '.' && !above?.isDirectory()) return above
  return lstatSync(join(root, path), { throwIfNoEntry: false })
}

type Roots = Pick<SandboxRecord, 'rootFolder'> & { lowerFolders?: readonly string[] }
export const rootsOf = ({ rootFolder, lowerFolders = [] }: Roots): string[] => [rootFolder, ...lowerFolders]

/** True if no volume, snapshot or other sandbox shares its disks. False if its start was cut off. */
export function isApart(folder: string, { layers, mounts }: SandboxRecord): boolean {
  if (layers > 0 || mounts) return false
  return lstatSync(join(folder, diskName), { throwIfNoEntry: false })?.nlink === 1
}

/**
 * Short names for all parts of the root: they must fit into one page of mount options, which the sandbox can
 * read, so they reveal nothing of this machine.
 */
export function linkRoots(layout: Layout, folder: string, record: SandboxRecord): void {
  const links = join(folder, rootsName)
  mkdirSync(links)
  for (const [name, target] of namedFolders(layout, folder, record)) symlinkSync(target, join(links, name))
}

/** All parts of the root, as paths in the slot's mount namespace. */
export const rootFolders = (layout: Layout, folder: string, record: SandboxRecord): string[] =>
  namedFolders(layout, folder, record).map(([, target]) => target)

function namedFolders(layout: Layout, folder: string, record: SandboxRecord): [name: string, path: string][] {
  return [
    ['disk', layout.diskMount],
    ['seed', join(folder, seedName)],
    ...layerNumbers(record).map((number): [string, string] => [`layer${number}`, layout.layerMount(number)]),
    ...rootsOf(record).map((root, number): [string, string] => [String(number), root]),
  ]
}

/** A folder that is not empty stays on the disk. */
function occupyTmp(seed: string, uidBase: number): void {
  mkdirSync(join(seed, 'tmp'))
  own(join(seed, 'tmp'), 0o1777, uidBase)
  const occupant = join(seed, 'tmp', '.warren')
  writeFileSync(occupant, '')
  chownSync(occupant, uidBase, uidBase)
}

function own(folder: string, mode: number, owner: number): void {
  chmodSync(folder, mode)
  chownSync(folder, owner, owner)
}

function etcFiles({ sandboxID }: SandboxRecord, dnsServers: readonly string[]): Record<string, string> {
  return {
    hostname: `${sandboxID}\n`,
    hosts: `127.0.0.1\tlocalhost\n127.0.1.1\t${sandboxID}\n::1\tlocalhost ip6-localhost ip6-loopback\n`,
    'resolv.conf': dnsServers.map((server) => `nameserver ${server}\n`).join(''),
    'machine-id': `${createHash('sha256').update(sandboxID).digest('hex').slice(0, 32)}\n`,
  }
}

/**
 * In the names of `linkRoots`. `volatile`: a crash of the machine ends the sandbox anyway, so syncing is
 * useless.
 */
export function overlayOptions(record: SandboxRecord): string {
  const disks = layerNumbers(record).map((number) => `layer${number}/upper`)
  const lower = [...disks, 'seed', ...rootsOf(record).keys()].join(':')
  return [`lowerdir=${lower}`, 'upperdir=disk/upper', 'workdir=disk/work', 'volatile'].join(',')
}

export const layerNumbers = ({ layers }: { layers: number }): number[] =>
  Array.from({ length: layers }, (_, index) => index + 1)
