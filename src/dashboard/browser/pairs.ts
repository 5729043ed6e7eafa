/** `key=value`, one a line, as people write metadata and variables. */
export function parsePairs(text: string): Record<string, string> {
  const pairs: Record<string, string> = {}
  const wrong: string[] = []
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue
    const at = line.indexOf('=')
    if (at < 1) wrong.push(`'${line.trim()}' is not key=value.`)
    else pairs[line.slice(0, at).trim()] = line.slice(at + 1).trim()
  }
  if (wrong.length > 0) throw new Error(wrong.join('\n'))
  return pairs
}

/** Each line that is not empty. */
export const parseLines = (text: string): string[] =>
  text
    .split(/[\n,]/)
    .map((line) => line.trim())
    .filter((line) => line !== '')
