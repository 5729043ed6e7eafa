/** Parses names of images as people write them. */
import { AppError } from '../lib/app-error.ts'
import { isDigest } from './digest.ts'

export type ImageReference = {
  /** A host with or without a port; `docker.io` by default. */
  registry: string
  repository: string
  /** Absent if the digest alone identifies the image. */
  tag?: string
  digest?: string
}

export const defaultRegistry = 'docker.io'
const longestName = 255
const repositoryPart = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/
const tagText = /^\w[\w.-]{0,127}$/
const hostText = /^(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i

export function parseReference(text: string): ImageReference {
  const at = text.indexOf('@')
  const digest = at === -1 ? undefined : text.slice(at + 1)
  // The part after an @ may be a password that somebody put before a host name, so the error does not quote
  // it.
  if (digest !== undefined && !isDigest(digest))
    throw notAName('the part after the @ is not a digest (sha256:…)')
  const named = at === -1 ? text : text.slice(0, at)
  const colon = named.lastIndexOf(':')
  const tagged = colon > named.lastIndexOf('/')
  const tag = tagged ? named.slice(colon + 1) : digest === undefined ? 'latest' : undefined
  if (tag !== undefined && !tagText.test(tag)) throw notAName(`${JSON.stringify(tag)} is not a tag`)
  return {
    ...parseName(tagged ? named.slice(0, colon) : named),
    ...(tag !== undefined && { tag }),
    ...(digest !== undefined && { digest }),
  }
}

/** Parses a name without tag or digest. */
export function parseName(name: string): { registry: string; repository: string } {
  const slash = name.indexOf('/')
  const first = slash === -1 ? '' : name.slice(0, slash)
  const namesHost = isHost(first)
  const registry = namesHost ? canonicalHost(first) : defaultRegistry
  const path = namesHost ? name.slice(slash + 1) : name
  const repository = registry === defaultRegistry && !path.includes('/') ? `library/${path}` : path
  if (!hostText.test(registry)) throw notAName(`${JSON.stringify(registry)} is not a host`)
  const tooLong = registry.length + repository.length >= longestName
  if (tooLong || !repository.split('/').every((part) => repositoryPart.test(part))) {
    throw notAName(
      `${JSON.stringify(path.slice(0, longestName))} is not a repository (lower case letters, digits, . _ - and /)`,
    )
  }
  return { registry, repository }
}

/** Distinguishes `localhost:5000/x` and `ghcr.io/x` from `team/x`. */
export function isHost(part: string): boolean {
  return part === 'localhost' || /[.:]/.test(part)
}

export function canonicalHost(host: string): string {
  const lower = host.toLowerCase()
  return lower === 'index.docker.io' || lower === 'registry-1.docker.io' ? defaultRegistry : lower
}

export function nameOf({ registry, repository }: ImageReference): string {
  return `${registry}/${repository}`
}

export function formatReference(reference: ImageReference): string {
  const { tag, digest } = reference
  return `${nameOf(reference)}${tag === undefined ? '' : `:${tag}`}${digest === undefined ? '' : `@${digest}`}`
}

function notAName(why: string): AppError {
  return new AppError(
    'invalid_argument',
    `This is not the name of an image: ${why}. Write it like debian:12, ghcr.io/team/image:tag or localhost:5000/image@sha256:….`,
  )
}
