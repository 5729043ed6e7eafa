/**
 * The operator's map from image names to other places: another registry, or an OCI layout folder on this
 * machine.
 */
import { AppError } from '../lib/app-error.ts'
import type { Login } from './credentials.ts'
import {
  canonicalHost,
  formatReference,
  type ImageReference,
  isHost,
  nameOf,
  parseName,
} from './reference.ts'

export type ImageLocation =
  | {
      kind: 'registry'
      reference: ImageReference
      /** The operator chose this host, and may have given a login for it. */
      mirrored: boolean
      login?: Login
    }
  | {
      kind: 'folder'
      folder: string /** What the image may be called in there, best first. */
      names: string[]
    }

const folderScheme = 'folder:'

type Mirror = { prefix: string; target: string; login?: Login }

export type Mirrors = readonly Mirror[]

/** `*` matches every name. The target replaces the prefix; the longest matching prefix wins. */
export function parseMirrors(given: Readonly<Record<string, string>>): Mirrors {
  const mirrors = Object.entries(given).map(([key, target]) => {
    if (target === '' || target === folderScheme) {
      throw new AppError(
        'invalid_argument',
        `The mirror of ${key} is empty: give a registry or folder:/path.`,
      )
    }
    return { prefix: canonicalPrefix(key), ...withoutLogin(key, target.replace(/\/+$/, '')) }
  })
  // Checked now, not at the first name that needs it.
  for (const mirror of mirrors) if (!isFolder(mirror)) parseTarget(mirror, 'library/x')
  return mirrors.sort((a, b) => b.prefix.length - a.prefix.length)
}

/** `user:password@host/prefix`; in both parts, %40 and the like stand for characters with a meaning here. */
function withoutLogin(key: string, given: string): Pick<Mirror, 'target' | 'login'> {
  const at = given.lastIndexOf('@')
  if (at === -1 || given.startsWith(folderScheme)) return { target: given }
  const [, username, password] = /^([^:/@]+):([^/@]+)$/.exec(given.slice(0, at)) ?? []
  try {
    if (!username || !password) throw new URIError('not in two parts')
    const login = { username: decodeURIComponent(username), password: decodeURIComponent(password) }
    return { target: given.slice(at + 1), login }
  } catch {
    // Not quoted, because it contains a password.
    throw new AppError(
      'invalid_argument',
      `The login of the mirror of ${key} must be user:password@ before the host, with %40 for @, %2F for /, %3A for :, %2C for a comma and %25 for %.`,
    )
  }
}

const isFolder = ({ target }: Mirror): boolean => target.startsWith(folderScheme)

export function locationOf(reference: ImageReference, mirrors: Mirrors): ImageLocation {
  const name = nameOf(reference)
  const mirror = mirrors.find(({ prefix }) => prefix === '' || `${name}/`.startsWith(`${prefix}/`))
  if (!mirror) return { kind: 'registry', reference, mirrored: false }
  const rest = name.slice(mirror.prefix.length).replace(/^\//, '')
  if (isFolder(mirror)) {
    const folder = mirror.target.slice(folderScheme.length)
    return { kind: 'folder', folder, names: namesInFolder(reference, rest) }
  }
  const { tag, digest } = reference
  const mapped = { ...parseTarget(mirror, rest), ...(tag && { tag }), ...(digest && { digest }) }
  const { login } = mirror
  return { kind: 'registry', reference: mapped, mirrored: true, ...(login && { login }) }
}

function canonicalPrefix(key: string): string {
  if (key === '*') return ''
  const [host = '', ...path] = key.split('/')
  if (isHost(host)) return [canonicalHost(host), ...path].join('/')
  const { registry, repository } = parseName(key)
  return `${registry}/${repository}`
}

function parseTarget({ target }: Mirror, rest: string): ImageReference {
  const name = rest === '' ? target : `${target}/${rest}`
  const first = name.slice(0, Math.max(0, name.indexOf('/')))
  if (!isHost(first)) {
    throw new AppError(
      'invalid_argument',
      `The mirror ${JSON.stringify(target)} does not name a registry: begin it with a host such as registry.example.com, or with folder:/.`,
    )
  }
  return parseName(name)
}

/** Tools write the full name, the short one, or only the tag if the folder is for one repository. */
function namesInFolder(reference: ImageReference, rest: string): string[] {
  const { tag, digest, repository } = reference
  if (digest !== undefined) return [digest]
  const short = repository.replace(/^library\//, '')
  const names = [formatReference(reference), `${repository}:${tag}`, `${short}:${tag}`]
  return rest === '' ? [...names, tag ?? ''] : [...names, `${rest}:${tag}`]
}
