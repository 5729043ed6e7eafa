/** Finds where the command for a sandbox begins: after `--`, or, as with Docker, with the first word that is not the verb's own. */
import { parseArgs } from 'node:util'
import { optionConfig } from './arguments.ts'
import type { Synopsis } from './help.ts'

type Split = {
  /** The verb's own options and words. */
  own: readonly string[]
  commandLine: string[] | undefined
}

/** A word with a tag or a digest: no program has such a name. */
const namesImage = /^[a-z0-9][\w.-]*(?::\d+)?(?:\/[\w.-]+)*(?::\w[\w.-]*|@sha256:[0-9a-f]{64})$/

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
  if (start !== undefined && verb.takesImage) {
    const word = args[start]!
    const standsBefore = dashes === start + 1 && dashes < args.length
    if (standsBefore || namesImage.test(word)) {
      const rest = args.slice(standsBefore ? dashes + 1 : start + 1)
      const own = [...args.slice(0, start), '--image', word]
      return { own, commandLine: rest.length > 0 ? rest : undefined }
    }
  }
  if (start !== undefined) return { own: args.slice(0, start), commandLine: args.slice(start) }
  const commandLine = dashes < args.length ? args.slice(dashes + 1) : undefined
  return { own: args.slice(0, dashes), commandLine }
}
