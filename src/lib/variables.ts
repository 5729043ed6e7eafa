/**
 * Variables in a text, as Dockerfiles write them: `$NAME`, `${NAME}`, `${NAME:-other}`, `${NAME:+other}`; without the
 * colon, a variable that is set to nothing counts as set. A backslash keeps a dollar as it is.
 */
import { AppError } from './app-error.ts'

/** In characters. Linux hands no longer variable to a program, so a longer text has no use. */
export const largestExpansion = 128 * 1024
/** In characters, of all names and values. Programs take little more in all. */
export const largestEnvironment = 1024 * 1024

const variable = /\\\$|\$(?:(\w+)|\{(\w+)(?:(:?[-+])((?:[^{}]|\$\{\w+\})*))?\})/g

/**
 * What is not set is nothing. A few lines, each of which repeats the one before ten times, would fill the memory: a text
 * that its variables make longer than `largestExpansion` is rejected.
 */
export function expandVariables(text: string, values: Readonly<Record<string, string>>): string {
  const most = Math.max(largestExpansion, text.length)
  let length = text.length
  return text.replace(variable, (whole, plain?: string, braced?: string, how?: string, other = '') => {
    const expanded = whole === '\\$' ? '$' : replacementOf(plain ?? braced ?? '', how, other, values)
    length += expanded.length - whole.length
    if (length > most) throw tooLong()
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

/** Every name that the text asks for, also those in what stands in for another. */
export function variablesIn(text: string): string[] {
  return [...text.matchAll(variable)].flatMap(([, plain, braced, , other]) => {
    const name = plain ?? braced
    return name === undefined ? [] : [name, ...variablesIn(other ?? '')]
  })
}
