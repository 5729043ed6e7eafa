/**
 * Characters that reverse or isolate the direction of what follows, and separators of lines: with them a text from a sandbox or
 * a server could show something else than it says.
 */
const directions = /[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/** For everything that the command line prints, except the output of a user's own command. */
export const withoutDirections = (text: string): string => text.replace(directions, '?')

/** Columns for people. A cell never breaks its row, whatever it contains. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [
    headings,
    ...rows.map((row) => row.map((cell) => withoutDirections(cell.replace(/\p{Cc}/gu, '?')))),
  ]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)))
  return lines
    .map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
    .map((line) => line.trimEnd())
    .join('\n')
}

/** Names and values in two columns, for one object with many properties. */
export function listing(properties: Readonly<Record<string, string>>): string {
  const width = Math.max(...Object.keys(properties).map((name) => name.length))
  return Object.entries(properties)
    .map(([name, value]) => `${name.padEnd(width)}  ${plainLines(value)}`.trimEnd())
    .join('\n')
}

const colours = { green: 32, yellow: 33, red: 31, dim: 2 } as const
type Paint = (text: string, colour: keyof typeof colours) => string

/** Colours are for terminals; a file or another program gets plain text. */
export const painter =
  (isTerminal: boolean): Paint =>
  (text, colour) =>
    isTerminal ? `\x1b[${colours[colour]}m${text}\x1b[0m` : text

/** 1 file, 2 files. */
export const counted = (count: number, one: string): string => `${count} ${one}${count === 1 ? '' : 's'}`

/** Uses the largest unit that leaves a number: 45 s, 12 min, 3 h, 2 days. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86_400)} days`
}

export const asJson = (value: unknown): string => JSON.stringify(value, null, 2).replace(directions, escaped)

const escaped = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

/** Removes control sequences that would move the cursor or change colours from a program's output. */
export function plainLines(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is to be removed
  const plain = text.replace(/\x1b\[[0-9;]*[A-Za-z]/g, '')
  return withoutDirections(plain.trimEnd().replace(/(?![\t\n])\p{Cc}/gu, '?'))
}
