/**
 * Variables in a text, as Dockerfiles write them: `$NAME`, `${NAME}`, `${NAME:-other}`, `${NAME:+other}`; without the
 * colon, a variable that is set to nothing counts as set. A backslash keeps a dollar as it is.
 */
import { AppError } from './app-error.ts'

/** In characters. Linux passes no longer variable to a program, so a longer text is useless. */
export const largestExpansion = 128 * 1024
/** In characters, of all names and values together. Linux passes little more to a program. */
export const largestEnvironment = 1024 * 1024

const variable = /\\\$|\$(?:(\w+)|\{(\w+)(?:(:?[-+])((?:[^{}]|\$\{\w+\})*))?\})/g

/**
 * A variable that is not set expands to an empty text. Rejects a text that expands to more than `largestExpansion`: a few
 * lines that each repeat the one before ten times would fill the memory.
 */
export function expandVariables(text: string, values: Readonly<Record<string, string>>): string {
  const max = Math.max(largestExpansion, text.length)
  let length = text.length
  return text.replace(variable, (whole, plain?: string, braced?: string, how?: string, other = '') => {
    const expanded = whole === '\\$' ? '$' : replacementOf(plain ?? braced ?? '', how, other, values)
    length += expanded.length - whole.length
    if (length > max) throw tooLong()
    return expanded
  })
}

function replacementOf(
  name: string,
  how: string | undefined,
  other: string,
  values: Readonly<Record<string, string>>,
): string {
  const value = Object.hasOwn(values, name) ? values[name]! : undefined
  if (how === undefined) return value ?? ''
  const isThere = how.startsWith(':') ? Boolean(value) : value !== undefined
  if (how.endsWith('+')) return isThere ? expandVariables(other, values) : ''
  return isThere ? value! : expandVariables(other, values)
}

function tooLong(): AppError {
  const message = `variables make the text longer than ${largestExpansion} characters: shorten their values`
  return new AppError('invalid_argument', message)
}

/** Every name that the text uses, including those inside a default of another variable. */
export function variablesIn(text: string): string[] {
  return [...text.matchAll(variable)].flatMap(([, plain, braced, , other]) => {
    const name = plain ?? braced
    return name === undefined ? [] : [name, ...variablesIn(other ?? '')]
  })
}
