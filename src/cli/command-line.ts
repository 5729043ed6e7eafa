/** Finds where the command for a sandbox begins: after `--`, or, as with Docker, with the first word that is not the verb's own. */
import { parseArgs } from 'node:util'
import { optionConfig } from './arguments.ts'
import type { Synopsis } from './help.ts'

type Split = {
  /** The verb's own options and words. */
  own: readonly string[]
  commandLine: string[] | undefined
  image: string | undefined
}

/** A name with a tag: no command is called so. */
const taggedImage = /^[a-z0-9][\w./-]*:[\w][\w.-]*$/

export function splitCommand(verb: Synopsis & { takesImage?: boolean }, args: readonly string[]): Split {
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
  const before = tokens.filter(({ index }) => index < dashes)
  const plain = before.flatMap((token) => (token.kind === 'positional' ? [token] : []))
  const isKnown = before.every((token) => token.kind !== 'option' || token.name in options)
  const first = plain[words.length]
  const hasImage =
    verb.takesImage === true &&
    first !== undefined &&
    (taggedImage.test(first.value) || (dashes < args.length && plain.length === 1 && isKnown))
  const start = plain[words.length + (hasImage ? 1 : 0)]
  const end = start?.index ?? dashes
  const own = args.slice(0, end).filter((_, index) => !hasImage || index !== first.index)
  const rest = start ? args.slice(start.index) : args.slice(dashes + 1)
  const commandLine = start || dashes < args.length ? rest : undefined
  return { own, commandLine, image: hasImage ? first.value : undefined }
}
