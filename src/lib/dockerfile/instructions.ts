/** Splits a Dockerfile into instructions: joins lines, drops comments, reads heredocs. It does not interpret them. */
import { AppError } from '../app-error.ts'

export type Heredoc = {
  name: string
  /** The text, without the tabs that `<<-` removes. */
  body: string
  /** True if the delimiter is quoted, so that nothing is expanded in the text. */
  isLiteral: boolean
}

export type Instruction = {
  /** The line where the instruction begins, counted from 1. */
  line: number
  /** In capitals. */
  keyword: string
  rest: string
  heredocs: Heredoc[]
  /** `rest` followed by its heredocs, as a shell reads them. */
  shellText: string
}

export class DockerfileError extends AppError {
  constructor(line: number, problem: string) {
    super('invalid_argument', `Dockerfile, line ${line}: ${problem}`)
  }
}

/** A backslash at the end continues the line, unless another backslash escapes it. */
const continues = /(?<!\\)\\[ \t]*$/
const isSkipped = (line: string) => /^\s*(?:#|$)/.test(line)
/** Quotes keep a word together. */
const shellWord = /(?:[^\s'"\\]|\\[\s\S]?|'[^']*'|"(?:[^"\\]|\\[\s\S])*"|['"])+/g
const heredocWord = /^\d*<<(-?)(['"]?)([A-Za-z_]\w*)\2$/
const withHeredocs = ['RUN', 'COPY', 'ADD']

export function readInstructions(text: string): Instruction[] {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/)
  refuseDirectives(lines)
  const found: Instruction[] = []
  let at = 0
  while (at < lines.length) {
    if (isSkipped(lines[at]!)) {
      at += 1
      continue
    }
    const line = at + 1
    const joined = joinLines(lines, at)
    at = joined.next
    const [, word = '', rest = ''] = /^(\S+)\s*([\s\S]*)$/.exec(joined.text.trim()) ?? []
    if (!/^[A-Za-z]+$/.test(word)) throw new DockerfileError(line, `'${shown(word)}' is no instruction.`)
    const keyword = word.toUpperCase()
    const heredocs: Heredoc[] = []
    let shellText = rest
    for (const { name, isLiteral, stripsTabs } of withHeredocs.includes(keyword) ? heredocsIn(rest) : []) {
      const without = (one: string) => (stripsTabs ? one.replace(/^\t+/, '') : one)
      let end = at
      while (end < lines.length && without(lines[end]!) !== name) end += 1
      if (end === lines.length)
        throw new DockerfileError(line, `the heredoc ${name} never ends: write ${name} on a line alone.`)
      const body = lines.slice(at, end)
      heredocs.push({ name, isLiteral, body: body.map((one) => `${without(one)}\n`).join('') })
      shellText = [shellText, ...body, lines[end]].join('\n')
      at = end + 1
    }
    found.push({ line, keyword, rest, heredocs, shellText })
  }
  return found
}

/** Comments and empty lines may stand between the lines of one instruction. */
function joinLines(lines: readonly string[], from: number): { text: string; next: number } {
  const parts: string[] = []
  let at = from
  while (at < lines.length) {
    const current = lines[at]!
    at += 1
    if (at > from + 1 && isSkipped(current)) continue
    parts.push(current.replace(continues, ''))
    if (!continues.test(current)) break
  }
  return { text: parts.join(''), next: at }
}

function heredocsIn(rest: string) {
  const words = rest.includes('<<') ? (rest.match(shellWord) ?? []) : []
  return words.flatMap((word) => {
    const [, dash, quote, name] = heredocWord.exec(word) ?? []
    return name === undefined ? [] : [{ name, isLiteral: quote !== '', stripsTabs: dash === '-' }]
  })
}

function refuseDirectives(lines: readonly string[]): void {
  for (const [index, line] of lines.entries()) {
    const [, name, value] = /^\s*#\s*(\w+)\s*=\s*(\S+)/.exec(line) ?? []
    if (name === undefined) return
    if (name.toLowerCase() === 'escape' && value !== '\\') {
      throw new DockerfileError(
        index + 1,
        `only a backslash can be the escape character, not '${shown(value!)}'.`,
      )
    }
  }
}

/** The beginning of a text that may be anything, short enough for a message. */
export const shown = (text: string): string => text.slice(0, 60).replace(/\p{Cc}/gu, '?')
