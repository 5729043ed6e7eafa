/** Reads words, lists and flags of Dockerfiles, and quotes words for shells. */

/** Called with the problem; throws. */
export type Refuse = (problem: string) => never

const reference = /\$(?:\w+|\{\w+(?::?[-+](?:[^{}'"\\]|\$\{\w+\})*)?\})/y

/**
 * Splits the text into words and resolves quotes and escapes. Variables stay for the server, which has their values; any
 * other dollar sign is escaped.
 */
export const wordsOf = (text: string, refuse: Refuse): string[] => scan(text, true, refuse)

/** The same for a text that is one word, including white space. */
export const wordOf = (text: string, refuse: Refuse): string => scan(text, false, refuse)[0] ?? ''

function scan(text: string, isSplit: boolean, refuse: Refuse): string[] {
  const words: string[] = []
  /** Collects pieces, because reading the end of a growing text copies all of it each time. */
  let word: string[] | undefined
  let quote = ''
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at]!
    if (isSplit && quote === '' && /\s/.test(char)) {
      if (word !== undefined) words.push(word.join(''))
      word = undefined
      continue
    }
    word ??= []
    const next = text[at + 1]
    if (char === quote) quote = ''
    else if (quote === '' && (char === '"' || char === "'")) quote = char
    else if (char === '\\' && quote !== "'" && next !== undefined && (quote === '' || /["$\\]/.test(next))) {
      word.push(next === '$' ? '\\$' : next)
      at += 1
    } else if (char === '$') {
      const name = quote === "'" ? undefined : referenceAt(text, at, refuse)
      if (name !== undefined && word.at(-1)?.endsWith('\\'))
        refuse('a backslash right before a variable cannot be kept.')
      word.push(name ?? '\\$')
      at += (name?.length ?? 1) - 1
    } else word.push(char)
  }
  if (quote !== '') refuse(`a quote (${quote}) is not closed.`)
  return word === undefined ? words : [...words, word.join('')]
}

/** Undefined if the dollar begins no variable. */
function referenceAt(text: string, at: number, refuse: Refuse): string | undefined {
  reference.lastIndex = at
  const found = reference.exec(text)?.[0]
  if (found === undefined && text[at + 1] === '{') {
    refuse(
      `of variables, only $NAME, \${NAME}, \${NAME:-other} and \${NAME:+other} can be written, without quotes inside.`,
    )
  }
  return found
}

/** Parses `["a", "b"]`; undefined if the text is not such a list. */
export function listOf(text: string, refuse: Refuse): string[] | undefined {
  if (!text.startsWith('[')) return undefined
  try {
    const list: unknown = JSON.parse(text)
    if (Array.isArray(list) && list.every((one) => typeof one === 'string')) return list
  } catch {
    // A shell's `[` test begins in the same way.
  }
  if (/^\[\s*'.*\]$/s.test(text)) refuse('a list is written with double quotes: ["a", "b"].')
  return undefined
}

/** Splits off the leading `--name=value` options. */
export function flagsOf(text: string): { flags: [name: string, value: string][]; rest: string } {
  const flags: [string, string][] = []
  let rest = text
  for (;;) {
    const found = /^--([a-z][a-z-]*)(?:=(\S*))?(?:\s+|$)/.exec(rest)
    if (!found) return { flags, rest }
    flags.push([found[1]!, found[2] ?? ''])
    rest = rest.slice(found[0].length)
  }
}

/** Quotes any text as one word of a shell. */
export function shellQuote(text: string): string {
  return /^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

export const shellJoin = (words: readonly string[]): string => words.map(shellQuote).join(' ')

/** A word as `wordsOf` gives it, for a shell that has the variables in its environment. */
export function shellWord(word: string): string {
  return `"${word.replace(/\\\$|[\\"`]/g, (found) => (found === '\\$' ? found : `\\${found}`))}"`
}
