/**
 * A command with verbs, as a table. Words, options and help come from it, so none of them can be forgotten; other code asks the
 * server and prints.
 */
import { asksForHelp, type Parsed, parseCommand, takeWords, UsageError, unknownVerb } from './arguments.ts'
import { splitCommand } from './command-line.ts'
import { optionLines, type Synopsis, usageLine, wrapped } from './help.ts'

export type Given = Parsed<string> & {
  /** The words of the command for a sandbox, or undefined if there is none. */
  commandLine: string[] | undefined
}

type Verb<Parts, Result> = Synopsis & {
  /** A sentence for the help. */
  does: string
  /** More of the help: paragraphs, and lines that begin with spaces, which stay as they are. */
  about?: string
  /** Returns the text to print. Connects only after it has checked its arguments. */
  run: (given: Given, parts: Parts) => Promise<Result>
}

export type VerbTable<Parts, Result = string> = {
  name: string
  does: string
  /** The end of the help of the command and of each verb. */
  notes?: string
  verbs: Readonly<Record<string, Verb<Parts, Result>>>
}

/** A command without verbs. */
export type SingleCommand<Parts, Result = string> = Omit<VerbTable<Parts, Result>, 'verbs'> & {
  verb: Verb<Parts, Result>
}

/** Words of Docker and of other tools, and the verbs here that do it: the first that the command has. */
const otherWords: Readonly<Record<string, readonly string[]>> = {
  ls: ['list'],
  ps: ['list'],
  rm: ['delete', 'kill', 'revoke', 'remove'],
  remove: ['delete', 'kill', 'revoke'],
  delete: ['kill', 'revoke', 'remove'],
  stop: ['pause'],
  start: ['resume'],
  inspect: ['info'],
}

/** The verb that a word stands for. */
function verbNamed(word: string, verbs: Readonly<Record<string, unknown>>): string | undefined {
  const known = (name: string) => Object.hasOwn(verbs, name)
  if (known(word)) return word
  return Object.hasOwn(otherWords, word) ? otherWords[word]!.find(known) : undefined
}

export async function runVerb<Parts, Result>(
  table: VerbTable<Parts, Result>,
  args: readonly string[],
  parts: Parts,
): Promise<Result | string> {
  const [word = '', ...rest] = args
  const name = verbNamed(word, table.verbs)
  if (name === undefined) {
    if (asksForHelp(args)) return usageOf(table)
    throw unknownVerb(args[0], Object.keys(table.verbs), `warren ${table.name}`)
  }
  return runOne(table.verbs[name]!, `warren ${table.name} ${name}`, rest, parts, table.notes)
}

export function runSingle<Parts, Result>(
  { name, notes, verb }: SingleCommand<Parts, Result>,
  args: readonly string[],
  parts: Parts,
): Promise<Result | string> {
  return runOne(verb, `warren ${name}`, args, parts, notes)
}

async function runOne<Parts, Result>(
  verb: Verb<Parts, Result>,
  command: string,
  args: readonly string[],
  parts: Parts,
  notes: string | undefined,
): Promise<Result | string> {
  const split = verb.takesCommand ? splitCommand(verb, args) : { own: args, commandLine: undefined }
  if (asksForHelp(split.own)) return helpOf(verb, command, notes)
  try {
    const { own, commandLine } = split
    return await verb.run({ ...parseVerb(verb, own, command), commandLine }, parts)
  } catch (error) {
    // What a command finds wrong later names the help of this verb too.
    throw error instanceof UsageError ? new UsageError(error.problem, command) : error
  }
}

function parseVerb(verb: Synopsis, args: readonly string[], command: string): Parsed<string> {
  const { words = [], texts = {}, lists = {}, flags = [], shorts = {}, needs = [] } = verb
  const more = { lists: Object.keys(lists), flags, shorts, json: verb.json ?? true }
  const parsed = parseCommand(args, Object.keys(texts), command, more)
  if (!words.at(-1)?.endsWith('…')) takeWords(parsed.words, words, command)
  for (const need of needs) {
    if (!parsed.values[need]) throw new UsageError(`--${need} ${texts[need]} is missing.`, command)
  }
  return parsed
}

/** The options of a verb, for shell completion. */
export function optionsOf({ texts = {}, lists = {}, flags = [], json = true }: Synopsis): string[] {
  return [...Object.keys(texts), ...Object.keys(lists), ...flags, ...(json ? ['json'] : [])]
}

function helpOf(verb: Verb<never, unknown>, command: string, notes: string | undefined): string {
  const parts = [
    `Usage:\n${usageLine(verb, command)}`,
    wrapped(`${verb.does}${verb.about === undefined ? '' : `\n\n${verb.about}`}`),
    optionLines(verb),
    ...(notes === undefined ? [] : [wrapped(notes)]),
  ]
  return parts.filter((part) => part !== '').join('\n\n')
}

function usageOf({ name, does, notes, verbs }: VerbTable<never, unknown>): string {
  const width = Math.max(...Object.keys(verbs).map((verb) => verb.length))
  const lines = Object.entries(verbs).map(([verb, row]) =>
    wrapped(`${verb.padEnd(width)}  ${row.does}`, 2, width + 4),
  )
  const more = wrapped(`\`warren ${name} VERB --help\` tells the options of a verb.`)
  const parts = [`Usage:\n  warren ${name} VERB`, wrapped(`${capital(does)}.`), lines.join('\n'), more]
  return [...parts, ...(notes === undefined ? [] : [wrapped(notes)])].join('\n\n')
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)
