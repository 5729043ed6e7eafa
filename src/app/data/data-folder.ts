/** The data folder: what lies where, who may read it, and the small files that the commands share. */
import { chmod, lstat, mkdir, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError, errorText } from '../../lib/app-error.ts'
import { randomHex } from '../../lib/ids.ts'

export type DataPaths = Readonly<{
  root: string
  secrets: string
  secretKey: string
  node: string
  credentials: string
  server: string
  lock: string
  database: string
  runtimes: string
  templates: string
  sandboxes: string
  snapshots: string
  volumes: string
  objectStoreID: string
}>

/** Made once at the first start. Whoever reads these controls every sandbox. */
export type Secrets = { seed: string; adminToken: string }
/** Which Warren this data folder belongs to, among those that share a database. */
export type Node = {
  nodeID: string
  /** True if this folder was in use before rows had owners: rows without an owner are its own. */
  adopts: boolean
}
/** The first team's first key in plain text, so that `warren env` can print it. */
export type FirstKey = { teamID: string; apiKey: string }
/** The address of the running server. */
export type ServerFile = {
  /** Reaches the server from this machine. */
  url: string
  /** The domain of sandboxes as clients must write it, with a port if they need one. */
  domain: string | null
  /** True if the certificate has no name of single sandboxes: clients reach them all through `sandbox.DOMAIN`. */
  hasNoWildcard?: boolean
  /** The server's certificate, if it serves TLS itself. */
  tlsCert: string | null
  pid: number
  startedAt: number
}

export function dataPaths(root: string, secretsFolder = root): DataPaths {
  return Object.freeze({
    root,
    secrets: join(secretsFolder, 'secrets.json'),
    secretKey: join(secretsFolder, 'secret-key.json'),
    node: join(root, 'node.json'),
    credentials: join(root, 'credentials.json'),
    server: join(root, 'server.json'),
    lock: join(root, 'lock'),
    database: join(root, 'warren.db'),
    runtimes: join(root, 'runtimes'),
    templates: join(root, 'templates'),
    sandboxes: join(root, 'sandboxes'),
    snapshots: join(root, 'saved'),
    volumes: join(root, 'volumes'),
    objectStoreID: join(root, 'object-store-id'),
  })
}

/**
 * For root alone: in the folder are the files of all sandboxes and templates, some of which run with the rights of their
 * owners. What the users of a sandbox need of it is mounted for them.
 */
export async function openDataFolder(root: string, secretsFolder?: string): Promise<DataPaths> {
  const paths = dataPaths(root)
  try {
    for (const folder of [root, paths.runtimes, paths.templates, paths.sandboxes, paths.snapshots]) {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      // A folder that lies elsewhere is the operator's to close.
      if (folder === root || !(await lstat(folder)).isSymbolicLink()) await chmod(folder, 0o700)
    }
    // Links, mounts and cgroups are named after the folder, so every path to it must give the same name.
    return dataPaths(await realpath(root), secretsFolder)
  } catch (error) {
    throw new AppError('invalid_argument', `Cannot make the data folder ${root}: ${errorText(error)}`, {
      cause: error,
    })
  }
}

/** Writes atomically: a reader sees the complete old or new file. */
async function writePrivateFile(path: string, value: unknown): Promise<void> {
  const partial = `${path}.${process.pid}.partial`
  await rm(partial, { force: true })
  await writeFile(partial, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600, flush: true })
  await rename(partial, path)
}

async function readPrivateFile<T>(path: string): Promise<T | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as T
  } catch (error) {
    // Only this means that the file is missing. A file that cannot be read now must not be replaced by a new
    // one.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    // The parser quotes the text that it rejects: no part of a secret may reach the log.
    if (error instanceof SyntaxError) {
      throw new AppError('internal', `${path} is damaged: it holds no JSON; restore it from a backup`)
    }
    const denied = (error as NodeJS.ErrnoException).code === 'EACCES'
    throw new AppError(
      denied ? 'permission_denied' : 'internal',
      denied
        ? `${path} is only for root: run this as root (sudo).`
        : `${path} cannot be read: ${errorText(error)}`,
      { cause: error },
    )
  }
}

export async function loadSecrets(paths: DataPaths): Promise<Secrets> {
  const stored = await readPrivateFile<Secrets>(paths.secrets)
  if (stored?.seed && stored.adminToken) {
    await closeToOthers(paths.secrets)
    return stored
  }
  const fresh = { seed: randomHex(32), adminToken: randomHex(32) }
  await writePrivateFile(paths.secrets, fresh)
  return fresh
}

/** Call it before `loadSecrets`, because a folder that was never used has no secrets yet. */
export async function loadNode(paths: DataPaths): Promise<Node> {
  const stored = await readPrivateFile<Node>(paths.node)
  if (stored?.nodeID) return stored
  const servedBefore = (await readPrivateFile<Secrets>(paths.secrets)) !== undefined
  const fresh = { nodeID: randomHex(16), adopts: servedBefore }
  await writePrivateFile(paths.node, fresh)
  return fresh
}

/** A folder of secrets that the platform mounts cannot be changed; the platform restricts it. */
async function closeToOthers(path: string): Promise<void> {
  if (((await stat(path)).mode & 0o077) === 0) return
  await chmod(path, 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EROFS') throw error
  })
}

/**
 * The key that opens the values of all teams' secrets. It is in its own file and never in the database, so
 * that a copy of either is worth nothing without the other.
 */
export async function loadSecretKey(paths: DataPaths): Promise<string> {
  const stored = await readPrivateFile<{ key?: unknown }>(paths.secretKey)
  if (stored === undefined) {
    const key = randomHex(32)
    await writePrivateFile(paths.secretKey, { key })
    return key
  }
  await closeToOthers(paths.secretKey)
  if (typeof stored?.key === 'string' && /^[0-9a-f]{64}$/.test(stored.key)) return stored.key
  throw new AppError(
    'internal',
    `${paths.secretKey} is damaged: restore it from a backup. Moving it away makes a new key, which opens no ` +
      'secret that is stored already',
  )
}

export const readCredentials = (paths: DataPaths) => readPrivateFile<FirstKey>(paths.credentials)
export const saveCredentials = (paths: DataPaths, credentials: FirstKey) =>
  writePrivateFile(paths.credentials, credentials)
export const saveServerFile = (paths: DataPaths, server: ServerFile) => writePrivateFile(paths.server, server)
export const removeServerFile = (paths: DataPaths) => rm(paths.server, { force: true })
export const readServerFile = (paths: DataPaths) => readPrivateFile<ServerFile>(paths.server)
