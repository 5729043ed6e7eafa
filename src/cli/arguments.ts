import { parseArgs } from 'node:util'
import { AppError, errorText } from '../lib/app-error.ts'
import { didYouMean, nearestWords } from './suggest.ts'

/** The command has wrong arguments. `command` is the one to ask for help, such as `warren team`. */
export class UsageError extends AppError {
  constructor(problem: string, command: string) {
    super('invalid_argument', `${problem} Run \`${command} --help\`.`)
  }
}

export const unknownArgument = (word: string, command: string): UsageError =>
  new UsageError(`Unknown argument '${word}'.`, command)

/** `choices` are the words that are allowed in this place. */
export function unknownVerb(
  verb: string | undefined,
  choices: readonly string[],
  command: string,
): UsageError {
  if (verb === undefined) return new UsageError(`An argument is missing: ${choices.join(', ')}.`, command)
  const suggestion = didYouMean(nearestWords(verb, choices).map((one) => `${command} ${one}`))
  return new UsageError(`Unknown argument '${verb}'.${suggestion}`, command)
}

export const asksForHelp = (args: readonly string[]): boolean =>
  args.includes('--help') || args.includes('-h')

export type Parsed<Name extends string> = {
  words: string[]
  values: Partial<Record<Name, string>>
  /** The values of options that may be given several times. */
  lists: Record<string, string[]>
  /** The given options that take no value. */
  flags: Set<string>
  json: boolean
}

/** Accepts `--name value` for each of the names, `--json` unless excluded, and any number of plain words. */
export function parseCommand<Name extends string>(
  args: readonly string[],
  names: readonly Name[],
  command: string,
  more: {
    lists?: readonly string[]
    flags?: readonly string[]
    /** One letter for an option, such as `i` for `--interactive`. */
    shorts?: Readonly<Record<string, string>>
    json?: boolean
  } = {},
): Parsed<Name> {
  const { lists: listNames = [], flags: flagNames = [], shorts = {}, json: hasJson = true } = more
  const short = (name: string) => (shorts[name] === undefined ? {} : { short: shorts[name] })
  const booleans = [...(hasJson ? ['json'] : []), ...flagNames]
  const options = {
    ...Object.fromEntries(names.map((name) => [name, { type: 'string' as const, ...short(name) }])),
    ...Object.fromEntries(
      listNames.map((name) => [name, { type: 'string' as const, multiple: true, ...short(name) }]),
    ),
    ...Object.fromEntries(booleans.map((name) => [name, { type: 'boolean' as const, ...short(name) }])),
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
    throw new UsageError(`${errorText(error).split('. ')[0]?.replace(/\.$/, '')}.`, command)
  }
}

/** Returns the words if there is exactly one for each name. */
export function takeWords(words: readonly string[], names: readonly string[], command: string): string[] {
  const extra = words[names.length]
  if (extra !== undefined) throw unknownArgument(extra, command)
  const missing = names[words.length]
  if (missing) throw new UsageError(`${missing} is missing.`, command)
  return [...words]
}

export function positiveNumber(name: string, text: string, command: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new UsageError(`--${name} is '${text}', but must be a whole number above 0.`, command)
}

/** NAME=VALUE options as an object. */
export function namedValues(name: string, texts: readonly string[], command: string): Record<string, string> {
  return Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf('=')
      if (at < 1) throw new UsageError(`--${name} is '${text}', but must be NAME=VALUE.`, command)
      return [text.slice(0, at), text.slice(at + 1)]
    }),
  )
}
