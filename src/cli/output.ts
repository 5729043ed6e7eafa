/** Columns for people. A cell never breaks its row, whatever it holds. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows.map((row) => row.map((cell) => cell.replace(/\p{Cc}/gu, '?')))]
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)))
  return lines
    .map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
    .map((line) => line.trimEnd())
    .join('\n')
}

export const asJson = (value: unknown): string => JSON.stringify(value, null, 2)

/** The output of a program without what would move the cursor or change colours. */
export function plainLines(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is to be removed
  const plain = text.replace(/\x1b\[[0-9;]*[A-Za-z]/g, '')
  return plain.trimEnd().replace(/(?![\t\n])\p{Cc}/gu, '?')
}
