import { parseArgs } from 'node:util'
import { AppError, errorText } from '../lib/app-error.ts'
import { memoryInMB } from '../lib/memory-size.ts'
import { didYouMean, nearestWords } from './suggest.ts'

/** The command has wrong arguments. `command` is the one to ask for help, such as `warren team`. */
export class UsageError extends AppError {
  readonly problem: string

  constructor(problem: string, command: string) {
    super('invalid_argument', `${problem} Run \`${command} --help\`.`)
    this.problem = problem
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

type MoreOptions = {
  lists?: readonly string[]
  flags?: readonly string[]
  /** One letter for an option, such as `i` for `--interactive`. */
  shorts?: Readonly<Record<string, string>>
  json?: boolean
}

type OptionConfig = Record<string, { type: 'string' | 'boolean'; short?: string; multiple?: boolean }>

/** The options as Node's parser wants them. */
export function optionConfig(names: readonly string[], more: MoreOptions): OptionConfig {
  const { lists = [], flags = [], shorts = {}, json = true } = more
  const short = (name: string) => (shorts[name] === undefined ? {} : { short: shorts[name] })
  const booleans = [...(json ? ['json'] : []), ...flags]
  return {
    ...Object.fromEntries(names.map((name) => [name, { type: 'string' as const, ...short(name) }])),
    ...Object.fromEntries(
      lists.map((name) => [name, { type: 'string' as const, multiple: true, ...short(name) }]),
    ),
    ...Object.fromEntries(booleans.map((name) => [name, { type: 'boolean' as const, ...short(name) }])),
  }
}

/** Accepts `--name value` for each of the names, `--json` unless excluded, and any number of plain words. */
export function parseCommand<Name extends string>(
  args: readonly string[],
  names: readonly Name[],
  command: string,
  more: MoreOptions = {},
): Parsed<Name> {
  const { lists: listNames = [], flags: flagNames = [] } = more
  const options = optionConfig(names, more)
  try {
    const { values, positionals } = parseArgs({
      args: joinNegatives(args, options),
      options,
      allowPositionals: true,
    })
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
    throw new UsageError(problemOf(errorText(error), Object.keys(options)), command)
  }
}

/** Makes a negative number after an option its value, so that the message is about the number. */
function joinNegatives(args: readonly string[], options: OptionConfig): string[] {
  const joined: string[] = []
  for (const arg of args) {
    const option = joined.at(-1)?.match(/^--([^=]+)$/)?.[1]
    const takesValue = option !== undefined && options[option]?.type === 'string'
    if (takesValue && /^-\d/.test(arg)) joined.push(`${joined.pop()}=${arg}`)
    else joined.push(arg)
  }
  return joined
}

/** What Node's parser says, in our words. */
function problemOf(text: string, names: readonly string[]): string {
  const [, unknown] = /^Unknown option '([^']+)'/.exec(text) ?? []
  if (unknown !== undefined) {
    const near = unknown.startsWith('--') ? nearestWords(unknown.slice(2), names) : []
    return `Unknown option '${unknown}'.${didYouMean(near.map((name) => `--${name}`))}`
  }
  const [, lacking] = /^Option '(?:-\w, )?(--[\w-]+)[^']*' argument (?:missing|is ambiguous)/.exec(text) ?? []
  if (lacking !== undefined) return `${lacking} needs a value.`
  return `${text.split('. ')[0]?.replace(/\.$/, '')}.`
}

/** Returns the words if there is exactly one for each name. */
export function takeWords(words: readonly string[], names: readonly string[], command: string): string[] {
  const extra = words[names.length]
  if (extra !== undefined) throw unknownArgument(extra, command)
  const missing = names[words.length]
  if (missing === undefined) return [...words]
  const all = names.length === 1 ? '' : `: the command takes ${names.join(' ')}, in this order`
  throw new UsageError(`${missing} is missing${all}.`, command)
}

export function positiveNumber(name: string, text: string, command: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new UsageError(`--${name} is '${text}', but must be a whole number above 0.`, command)
}

/** Returns the text if it is one of the choices. */
export function oneOf(name: string, text: string, choices: readonly string[], command: string): string {
  if (choices.includes(text)) return text
  throw new UsageError(`--${name} is '${text}', but must be one of ${choices.join(', ')}.`, command)
}

/** A size of memory in MiB. */
export function memoryOf(text: string, command: string): number {
  const memoryMB = memoryInMB(text)
  if (memoryMB !== undefined) return memoryMB
  throw new UsageError(`--memory is '${text}', but must be MiB, or have a unit such as 4g.`, command)
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
