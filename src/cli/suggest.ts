/** Suggests commands for a mistyped one. */

type NamedCommand = { name: string; verbs?: Readonly<Record<string, unknown>> | undefined }

const maxSlips = 2

/**
 * The commands nearest to the word, such as `warren sandbox` for `sanbdox`, and `warren sandbox logs` for
 * `logs`.
 */
export function suggestCommands(word: string, commands: readonly NamedCommand[]): string[] {
  const named = nearestWords(
    word,
    commands.map(({ name }) => name),
  )
  if (named.length > 0) return named.map((name) => `warren ${name}`)
  return commands
    .filter(({ verbs = {} }) => Object.hasOwn(verbs, word))
    .map(({ name }) => `warren ${name} ${word}`)
}

/** The choices with the fewest typing errors, if these are few for the length of the word. */
export function nearestWords(word: string, choices: readonly string[]): string[] {
  const slips = choices.map((choice) => ({ choice, count: slipsBetween(word, choice) }))
  const fewest = Math.min(maxSlips, Math.floor(word.length / 2), ...slips.map(({ count }) => count))
  return slips.filter(({ count }) => count <= fewest).map(({ choice }) => choice)
}

/** Letters to insert, remove or replace; two swapped neighbours count once. */
function slipsBetween(one: string, other: string): number {
  let before: number[] = []
  let last = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (let row = 1; row <= one.length; row++) {
    const next = [row]
    for (let column = 1; column <= other.length; column++) {
      const differs = one[row - 1] === other[column - 1] ? 0 : 1
      let count = Math.min(last[column]! + 1, next[column - 1]! + 1, last[column - 1]! + differs)
      const isSwapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      if (isSwapped) count = Math.min(count, before[column - 2]! + 1)
      next.push(count)
    }
    before = last
    last = next
  }
  return last[other.length]!
}

/** A sentence with the suggestions, or an empty text. */
export const didYouMean = (suggestions: readonly string[]): string =>
  suggestions.length === 0 ? '' : ` Did you mean ${suggestions.map((one) => `\`${one}\``).join(' or ')}?`
