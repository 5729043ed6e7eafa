/** Patterns of paths, for COPY and for .dockerignore. */
import { AppError } from '../../lib/app-error.ts'

const escaped = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

export const isPattern = (text: string): boolean => /[*?[]/.test(text)

/**
 * `*` and `?` stay within a name and match a dot at its options, `**` goes across folders, `[a-z]` is one of these.
 * A folder that matches takes along what is in it.
 */
export function patternOf(glob: string): RegExp {
  const parts = glob.matchAll(/\*\*\/|\*\*|[*?]|\[([!^]?)(\]?[^\]]*)\]|\\?([\s\S])/g)
  const source = [...parts].map(([whole, not, among, plain]) => {
    if (whole === '**/') return '(?:.*/)?'
    if (whole === '**') return '.*'
    if (whole === '*') return '[^/]*'
    if (whole === '?') return '[^/]'
    if (among === undefined) return escaped(plain!)
    return `[${not ? '^/' : ''}${among.replace(/[\\[\]^]/g, '\\$&')}]`
  })
  try {
    return new RegExp(`^(?:${source.join('')})(?:/.*)?$`, 's')
  } catch {
    throw new AppError('invalid_argument', `'${glob.slice(0, 60)}' is no pattern of paths.`)
  }
}

export type Ignore = {
  (path: string): boolean
  /** Within a folder that is ignored there may be something that is not. */
  hasExceptions: boolean
}

/** The rules of a .dockerignore, from the folder on; of those that match a path, the last one counts. */
export function ignoreOf(text: string): Ignore {
  const rules = text
    .replace(/^\uFEFF/, '')
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .map((line) => line.trim())
    .flatMap((line) => {
      const glob = line
        .replace(/^!\s*/, '')
        .replace(/^(?:\.?\/)+/, '')
        .replace(/\/+$/, '')
      return glob === ''
        ? []
        : [{ pattern: glob === '.' ? /^/ : patternOf(glob), isKept: line.startsWith('!') }]
    })
  const isIgnored = (path: string) => rules.findLast(({ pattern }) => pattern.test(path))?.isKept === false
  return Object.assign(isIgnored, { hasExceptions: rules.some(({ isKept }) => isKept) })
}
