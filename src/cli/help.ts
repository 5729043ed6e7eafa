/** The text of a help, in lines that fit a terminal of 80 columns. */

/** What a verb takes. */
export type Synopsis = {
  /** The words after the verb. All are required, but a last one that ends with … may be omitted or repeated. */
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
  /** What each option is for, with its default. */
  options?: Readonly<Record<string, string>>
  /** The verb has an output for programs. */
  json?: boolean
  /** The verb takes a command for a sandbox. */
  takesCommand?: boolean
  /** The verb takes an image before the command, as Docker does. */
  takesImage?: boolean
}

const columns = 80

/** Breaks paragraphs into lines. Empty lines and lines that begin with a space stay as they are. */
export function wrapped(text: string, indent = 0, hanging = indent): string {
  const lines: string[] = []
  let paragraph: string[] = []
  const close = () => {
    if (paragraph.length > 0) lines.push(broken(paragraph.join(' '), indent, hanging))
    paragraph = []
  }
  for (const line of text.split('\n')) {
    if (line !== '' && !line.startsWith(' ')) paragraph.push(line)
    else {
      close()
      lines.push(line)
    }
  }
  close()
  return lines.join('\n')
}

function broken(paragraph: string, indent: number, hanging: number): string {
  const lines: string[] = []
  let line = ' '.repeat(indent)
  let isEmpty = true
  // Spaces within a column stay.
  for (const word of paragraph.split(/(?<=\S)(?= \S)/)) {
    const piece = isEmpty ? word.trimStart() : word
    if (!isEmpty && line.length + piece.length > columns) {
      lines.push(line)
      line = `${' '.repeat(hanging)}${word.trimStart()}`
    } else line += piece
    isEmpty = false
  }
  return [...lines, line].join('\n')
}

/** The verb with its words and options, or without the options if there are too many for a line. */
export function usageLine(usage: Synopsis, command: string): string {
  const { words = [], texts = {}, lists = {}, flags = [], needs = [], json = true } = usage
  const required = [...words, ...needs.map((name) => `${dashed(name, usage)} ${texts[name]}`)]
  const optional = [
    ...Object.entries(texts).flatMap(([name, value]) =>
      needs.includes(name) ? [] : [`[${dashed(name, usage)} ${value}]`],
    ),
    ...Object.entries(lists).map(([name, value]) => `[${dashed(name, usage)} ${value}]…`),
    ...flags.map((name) => `[${dashed(name, usage)}]`),
    ...(json ? ['[--json]'] : []),
  ]
  const last = usage.takesCommand ? ['COMMAND…'] : []
  const full = ['', command, ...required, ...optional, ...last].join(' ')
  if (full.length < columns) return ` ${full}`
  // The options of `run` and `exec` are their own only before the command.
  const some = usage.takesCommand ? ['[OPTION]…', ...required] : [...required, '[OPTION]…']
  return ` ${['', command, ...some, ...last].join(' ')}`
}

function dashed(name: string, { shorts = {} }: Synopsis): string {
  return shorts[name] === undefined ? `--${name}` : `-${shorts[name]}|--${name}`
}

/** Each option with what it is for. */
export function optionLines(usage: Synopsis): string {
  const { texts = {}, lists = {}, flags = [], options = {}, shorts = {}, json = true } = usage
  const named = (name: string, value = '') =>
    `${shorts[name] === undefined ? '' : `-${shorts[name]}, `}--${name}${value === '' ? '' : ` ${value}`}`
  const rows: [string, string][] = [
    ...Object.entries({ ...texts, ...lists }).map(([name, value]): [string, string] => [
      named(name, value),
      `${options[name] ?? ''}${name in lists ? '; may be given several times' : ''}`,
    ]),
    ...flags.map((name): [string, string] => [named(name), options[name] ?? '']),
    ...(json ? [['--json', options.json ?? 'the result as JSON'] as [string, string]] : []),
  ]
  const width = Math.min(26, Math.max(...rows.map(([name]) => name.length), 0))
  return rows.map(([name, text]) => broken(`${name.padEnd(width)}  ${text}`, 2, width + 4)).join('\n')
}
