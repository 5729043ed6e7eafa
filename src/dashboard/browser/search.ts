/** What the search fields understand. */

type Searchable = {
  sandboxID: string
  alias?: string | undefined
  templateID: string
  metadata?: Record<string, string> | undefined
}

/**
 * Every word must be found: `key=value` in the metadata, all else anywhere in ids, names or metadata. Capitals do not
 * matter.
 */
export function matches(sandbox: Searchable, text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) return true
  const metadata = Object.entries(sandbox.metadata ?? {}).map(([key, value]) =>
    `${key}=${value}`.toLowerCase(),
  )
  const texts = [sandbox.sandboxID, sandbox.alias ?? '', sandbox.templateID, ...metadata]
  return words.every((word) => {
    if (word.includes('=')) return metadata.some((pair) => pair.startsWith(word))
    return texts.some((one) => one.toLowerCase().includes(word))
  })
}

/** The rank of a text that has the letters, and not one after another. */
const spread = 100

/** How well the letters of `wanted` are found in order: lower is better, undefined is not at all. */
export function rank(text: string, wanted: string): number | undefined {
  const all = text.toLowerCase()
  const asked = wanted.toLowerCase().replace(/\s+/g, '')
  const whole = all.indexOf(wanted.toLowerCase().trim())
  if (whole >= 0) return whole
  let at = -1
  let gaps = 0
  for (const letter of asked) {
    const next = all.indexOf(letter, at + 1)
    if (next < 0) return undefined
    gaps += next - at - 1
    at = next
  }
  return spread + gaps
}

export type Findable = {
  text: string
  /** Found as they are written, not by letters of them. */
  words?: readonly string[]
}

/** The best matches, best first, each with the word by which it was found if its text does not have what is wanted. */
export function best<T extends Findable>(
  all: readonly T[],
  wanted: string,
  max: number,
): { one: T; word?: string }[] {
  const asked = wanted.trim().toLowerCase()
  const scored = all.flatMap((one) => {
    const score = rank(one.text, wanted)
    const word =
      asked === '' ? undefined : one.words?.find((candidate) => candidate.toLowerCase().includes(asked))
    // A word that has it whole goes before letters that are spread over a text.
    if (word !== undefined && (score === undefined || score >= spread)) return [{ one, word, score: 50 }]
    return score === undefined ? [] : [{ one, score }]
  })
  return scored.sort((a, b) => a.score - b.score).slice(0, max)
}
