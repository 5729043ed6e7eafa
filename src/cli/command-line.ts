/** Finds where the command for a sandbox begins: after `--`, or, as with Docker, with the first word that is not the verb's own. */
import { parseArgs } from 'node:util'
import { optionConfig } from './arguments.ts'
import type { Synopsis } from './help.ts'

type Split = {
  /** The verb's own options and words. */
  own: readonly string[]
  commandLine: string[] | undefined
}

export function splitCommand(verb: Synopsis, args: readonly string[]): Split {
  const { words = [], texts = {}, lists = {}, flags = [], shorts = {} } = verb
  const options = optionConfig(Object.keys(texts), { lists: Object.keys(lists), flags, shorts, json: false })
  const { tokens } = parseArgs({
    args: [...args],
    options,
    allowPositionals: true,
    strict: false,
    tokens: true,
  })
  const dashes = tokens.find(({ kind }) => kind === 'option-terminator')?.index ?? args.length
  const plain = tokens.filter(({ kind, index }) => kind === 'positional' && index < dashes)
  const start = plain[words.length]?.index
  if (start !== undefined) return { own: args.slice(0, start), commandLine: args.slice(start) }
  const commandLine = dashes < args.length ? args.slice(dashes + 1) : undefined
  return { own: args.slice(0, dashes), commandLine }
}
