/**
 * Commands with verbs, such as `warren sandbox list`, as tables: arguments, help and shell completion come
 * from the same rows.
 */
import { asksForHelp, type Parsed, parseCommand, takeWords, UsageError, unknownVerb } from './arguments.ts'

export type Given = Parsed<string>

export type Verb<Parts, Result> = {
  /**
   * The words after the verb. All are required, but a last one that ends with … may be omitted or repeated.
   */
  words?: readonly string[]
  /** Options with a value, and the name of the value in the help. */
  texts?: Readonly<Record<string, string>>
  /** Options with a value that may be given several times. */
  lists?: Readonly<Record<string, string>>
  flags?: readonly string[]
  /** The required ones of `texts`. */
  needs?: readonly string[]
  /** The verb has an output for programs. */
  json?: boolean
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

export async function runVerb<Parts, Result>(
  table: VerbTable<Parts, Result>,
  args: readonly string[],
  parts: Parts,
): Promise<Result | string> {
  if (asksForHelp(args)) return usageOf(table)
  const command = `warren ${table.name}`
  const [name = '', ...rest] = args
  const verb = Object.hasOwn(table.verbs, name) ? table.verbs[name] : undefined
  if (!verb) throw unknownVerb(args[0], Object.keys(table.verbs), command)
  const { words = [], texts = {}, lists = {}, flags = [], needs = [] } = verb
  const more = { lists: Object.keys(lists), flags, json: verb.json ?? true }
  const given = parseCommand(rest, Object.keys(texts), command, more)
  if (!words.at(-1)?.endsWith('…')) takeWords(given.words, words, command)
  for (const need of needs) {
    if (!given.values[need]) throw new UsageError(`--${need} ${texts[need]} is missing.`, command)
  }
  return verb.run(given, parts)
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
  needs = [],
  json = true,
}: Verb<never, unknown>) {
  const optional = (text: string) => `[${text}]`
  return [
    ...words,
    ...needs.map((name) => `--${name} ${texts[name]}`),
    ...Object.entries(texts).flatMap(([name, value]) =>
      needs.includes(name) ? [] : optional(`--${name} ${value}`),
    ),
    ...Object.entries(lists).map(([name, value]) => `${optional(`--${name} ${value}`)}…`),
    ...flags.map((name) => optional(`--${name}`)),
    ...(json ? [optional('--json')] : []),
  ]
}
