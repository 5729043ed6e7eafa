/** Patterns of paths, for COPY and for .dockerignore. Why no package does it: docs/decisions/0020-packages.md. */
import { posix } from 'node:path'
import { AppError } from '../../lib/app-error.ts'

const escaped = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

export const isPattern = (text: string): boolean => /[*?[]/.test(text)

/**
 * `*` and `?` stay within a name and match a leading dot, `**` matches across folders, `[a-z]` matches one of
 * these characters. A matching folder includes everything in it.
 */
export function patternOf(glob: string): RegExp {
  const parts = glob.matchAll(/\*\*\/?|[*?]|\[([!^]?)(\]?[^\]]*)\]|\\?([\s\S])/g)
  const source = [...parts].map(({ 0: whole, 1: not, 2: among, 3: plain, index }) => {
    if (whole.startsWith('**')) return index + whole.length === glob.length ? '.*' : '(?:.*/)?'
    if (whole === '*') return '[^/]*'
    if (whole === '?') return '[^/]'
    if (among === undefined) return escaped(plain!)
    return `[${not ? '^/' : ''}${among.replace(/[\\[\]^]/g, '\\$&')}]`
  })
  try {
    return new RegExp(`^(?:${source.join('')})(?:/.*)?$`, 's')
  } catch {
    throw new AppError('invalid_argument', `'${glob.slice(0, 60)}' is not a pattern of paths.`)
  }
}

export type Ignore = {
  (path: string): boolean
  /** An ignored folder may contain something that is not ignored. */
  hasExceptions: boolean
}

/**
 * Parses the rules of a .dockerignore. They are relative to the folder, and the last rule that matches a path
 * decides.
 */
export function ignoreOf(text: string): Ignore {
  const rules = text
    .replace(/^\uFEFF/, '')
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .map((line) => line.trim())
    .flatMap((line) => {
      const glob = cleaned(line.replace(/^!\s*/, ''))
      return glob === '' ? [] : [{ pattern: patternOf(glob), isException: line.startsWith('!') }]
    })
  const isIgnored = (path: string) =>
    rules.findLast(({ pattern }) => pattern.test(path))?.isException === false
  return Object.assign(isIgnored, { hasExceptions: rules.some(({ isException }) => isException) })
}

/**
 * Removes `.`, `..` and doubled slashes, as Docker does in a rule. The folder itself, `.`, is not a rule
 * there.
 */
function cleaned(rule: string): string {
  const path = posix.normalize(rule).replace(/\/+$/, '').replace(/^\/+/, '')
  return path === '.' ? '' : path
}
