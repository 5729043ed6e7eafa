/**
 * Commands as tables, with verbs such as `warren sandbox list`, or one command such as `warren run`: arguments,
 * help and shell completion come from the same rows.
 */
import { errorText } from '../lib/app-error.ts'
import { asksForHelp, type Parsed, parseCommand, takeWords, UsageError, unknownVerb } from './arguments.ts'

export type Given = Parsed<string> & {
  /** The words after `--`, or undefined if there is no `--`. */
  commandLine: string[] | undefined
}

type Verb<Parts, Result> = {
  /**
   * The words after the verb. All are required, but a last one that ends with … may be omitted or repeated.
   */
  words?: readonly string[]
  /** Options with a value, and the name of the value in the help. */
  texts?: Readonly<Record<string, string>>
  /** Options with a value that may be given several times. */
  lists?: Readonly<Record<string, string>>
  flags?: readonly string[]
  /** One letter for an option, such as `i` for `interactive`. */
  shorts?: Readonly<Record<string, string>>
  /** The required ones of `texts`. */
  needs?: readonly string[]
  /** The verb has an output for programs. */
  json?: boolean
  /** The verb takes a command for a sandbox after `--`. */
  takesCommand?: boolean
  /** Returns the text to print. Connects only after it has checked its arguments. */
  run: (given: Given, parts: Parts) => Promise<Result>
}

export type VerbTable<Parts, Result = string> = {
  name: string
  does: string
  /** The text of the help below the usage of all verbs. */
  notes: string
  verbs: Readonly<Record<string, Verb<Parts, Result>>>
}

/** A command without verbs. */
export type SingleCommand<Parts, Result = string> = Omit<VerbTable<Parts, Result>, 'verbs'> & {
  verb: Verb<Parts, Result>
}

export async function runVerb<Parts, Result>(
  table: VerbTable<Parts, Result>,
  args: readonly string[],
  parts: Parts,
): Promise<Result | string> {
  if (asksForHelp(beforeCommand(args))) return usageOf(table)
  const command = `warren ${table.name}`
  const [name = '', ...rest] = args
  const verb = Object.hasOwn(table.verbs, name) ? table.verbs[name] : undefined
  if (!verb) throw unknownVerb(args[0], Object.keys(table.verbs), command)
  return verb.run(parseVerb(verb, rest, command), parts)
}

export async function runSingle<Parts, Result>(
  { name, notes, verb }: SingleCommand<Parts, Result>,
  args: readonly string[],
  parts: Parts,
): Promise<Result | string> {
  if (asksForHelp(beforeCommand(args)))
    return `Usage:\n  warren ${[name, ...wordsOf(verb)].join(' ')}\n\n${notes}`
  return verb.run(parseVerb(verb, args, `warren ${name}`), parts)
}

function parseVerb(verb: Verb<never, unknown>, args: readonly string[], command: string): Given {
  const { words = [], texts = {}, lists = {}, flags = [], shorts = {}, needs = [] } = verb
  const more = { lists: Object.keys(lists), flags, shorts, json: verb.json ?? true }
  const own = verb.takesCommand ? beforeCommand(args) : args
  const parsed = parseOptions()
  if (!words.at(-1)?.endsWith('…')) takeOwnWords(parsed.words, verb, command)
  for (const need of needs) {
    if (!parsed.values[need]) throw new UsageError(`--${need} ${texts[need]} is missing.`, command)
  }
  const commandLine = own.length < args.length ? args.slice(own.length + 1) : undefined
  return { ...parsed, commandLine }

  function parseOptions() {
    try {
      return parseCommand(own, Object.keys(texts), command, more)
    } catch (error) {
      if (!verb.takesCommand || own.length < args.length) throw error
      throw new UsageError(`${errorText(error).replace(/ Run .*/, '')} A command goes after \`--\`.`, command)
    }
  }
}

/** A word too many of a verb with a command is most likely a command without `--` before it. */
function takeOwnWords(
  given: readonly string[],
  { words = [], takesCommand }: Verb<never, unknown>,
  command: string,
) {
  const extra = given[words.length]
  if (takesCommand && extra !== undefined)
    throw new UsageError(
      `Write \`--\` before the command: \`-- ${given.slice(words.length).join(' ')}\`.`,
      command,
    )
  takeWords(given, words, command)
}

function beforeCommand(args: readonly string[]): readonly string[] {
  const at = args.indexOf('--')
  return at < 0 ? args : args.slice(0, at)
}

/** The options of a verb, for shell completion. */
export function optionsOf({
  texts = {},
  lists = {},
  flags = [],
  json = true,
}: Verb<never, unknown>): string[] {
  return [...Object.keys(texts), ...Object.keys(lists), ...flags, ...(json ? ['json'] : [])]
}

function usageOf({ name, notes, verbs }: VerbTable<never, unknown>): string {
  const lines = Object.entries(verbs).map(
    ([verb, row]) => `  warren ${name} ${[verb, ...wordsOf(row)].join(' ')}`,
  )
  return `Usage:\n${lines.join('\n')}\n\n${notes}`
}

function wordsOf({
  words = [],
  texts = {},
  lists = {},
  flags = [],
  shorts = {},
  needs = [],
  json = true,
  takesCommand = false,
}: Verb<never, unknown>) {
  const optional = (text: string) => `[${text}]`
  const named = (name: string) => (shorts[name] === undefined ? `--${name}` : `-${shorts[name]}|--${name}`)
  return [
    ...words,
    ...needs.map((name) => `${named(name)} ${texts[name]}`),
    ...Object.entries(texts).flatMap(([name, value]) =>
      needs.includes(name) ? [] : optional(`${named(name)} ${value}`),
    ),
    ...Object.entries(lists).map(([name, value]) => `${optional(`${named(name)} ${value}`)}…`),
    ...flags.map((name) => optional(named(name))),
    ...(json ? [optional('--json')] : []),
    ...(takesCommand ? ['-- COMMAND [ARGUMENT]…'] : []),
  ]
}
