import { parseArgs } from 'node:util'
import { AppError, errorText } from '../lib/app-error.ts'

/** The command was written wrongly; the message shows how it is written. */
export class UsageError extends AppError {
  constructor(problem: string, usage: string) {
    super('invalid_argument', `${problem}\n\n${usage}`)
  }
}

export type Parsed<Name extends string> = {
  words: string[]
  values: Partial<Record<Name, string>>
  /** Of what may be given several times. */
  lists: Record<string, string[]>
  /** What was given without a value. */
  flags: Set<string>
  json: boolean
}

/** `--name value` for each of the names, `--json`, and as many plain words as there are. */
export function parseCommand<Name extends string>(
  args: readonly string[],
  names: readonly Name[],
  usage: string,
  more: { lists?: readonly string[]; flags?: readonly string[] } = {},
): Parsed<Name> {
  const { lists: listNames = [], flags: flagNames = [] } = more
  const options = {
    ...Object.fromEntries(names.map((name) => [name, { type: 'string' as const }])),
    ...Object.fromEntries(listNames.map((name) => [name, { type: 'string' as const, multiple: true }])),
    ...Object.fromEntries(['json', ...flagNames].map((name) => [name, { type: 'boolean' as const }])),
  }
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    const all = values as Record<string, string | string[] | boolean | undefined>
    const given = <T>(wanted: readonly string[]) =>
      Object.fromEntries(wanted.map((name) => [name, all[name] as T]))
    const lists = given<string[] | undefined>(listNames)
    return {
      words: positionals,
      values: given(names) as Parsed<Name>['values'],
      lists: Object.fromEntries(listNames.map((name) => [name, lists[name] ?? []])),
      flags: new Set(flagNames.filter((name) => all[name] === true)),
      json: all.json === true,
    }
  } catch (error) {
    throw new UsageError(errorText(error).split('. ')[0] ?? '', usage)
  }
}

/** Exactly the words that the usage asks for. */
export function takeWords(words: readonly string[], names: readonly string[], usage: string): string[] {
  if (words.length > names.length) throw new UsageError(`What is '${words[names.length]}'?`, usage)
  const missing = names[words.length]
  if (missing) throw new UsageError(`${missing} is missing.`, usage)
  return [...words]
}

export function positiveNumber(name: string, text: string, usage: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new UsageError(`--${name} is '${text}', but must be a whole number above 0.`, usage)
}
