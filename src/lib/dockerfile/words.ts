/** How Dockerfiles write words, lists and flags, and how shells do. */

/** Throws an error with this problem. */
export type Refuse = (problem: string) => never

const reference = /\$(?:\w+|\{\w+(?::?[-+](?:[^{}'"\\]|\$\{\w+\})*)?\})/y

/**
 * Splits the text into words and resolves quotes and escapes. Variables stay for the server, which has their values; any
 * other dollar sign is escaped.
 */
export const wordsOf = (text: string, refuse: Refuse): string[] => scan(text, true, refuse)

/** Like `wordsOf`, but the whole text is one word, white space included. */
export const wordOf = (text: string, refuse: Refuse): string => scan(text, false, refuse)[0] ?? ''

function scan(text: string, isSplit: boolean, refuse: Refuse): string[] {
  const words: string[] = []
  /** In pieces: to look at the end of a text that grows copies all of it each time. */
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

/** Undefined: a dollar and nothing more. */
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

/** `["a", "b"]`; undefined where it is no such list. */
export function listOf(text: string, refuse: Refuse): string[] | undefined {
  if (!text.startsWith('[')) return undefined
  try {
    const list: unknown = JSON.parse(text)
    if (Array.isArray(list) && list.every((one) => typeof one === 'string')) return list
  } catch {
    // A test of a shell begins in the same way.
  }
  if (/^\[\s*'.*\]$/s.test(text)) refuse('a list is written with double quotes: ["a", "b"].')
  return undefined
}

/** The `--name=value` at the options, and what follows them. */
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

/** As one word of a shell, whatever it holds. */
export function shellQuote(text: string): string {
  return /^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

export const shellJoin = (words: readonly string[]): string => words.map(shellQuote).join(' ')

/** A word as `wordsOf` gives it, for a shell that has the variables in its environment. */
export function shellWord(word: string): string {
  return `"${word.replace(/\\\$|[\\"`]/g, (found) => (found === '\\$' ? found : `\\${found}`))}"`
}
