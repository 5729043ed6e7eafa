/** Names that the glossary of ARCHITECTURE.md has replaced, and where their words are still right. */
import { isTestCode } from './architecture.ts'
import { maskTexts } from './source-text.ts'

type Replaced = {
  /** Matches a name with the word. */
  name: RegExp
  /** Paths of the files to which it applies. */
  where: RegExp
  say: string
  /** Names that others impose, each for the reason beside it. */
  imposed?: readonly string[]
  /** Tests may use the word. */
  butInTests?: boolean
}

const replaced: readonly Replaced[] = [
  {
    name: /^#?_?(?:most|least)(?:[A-Z]|$)/,
    where: /\.ts$/,
    say: 'max… or min…',
    // Nodes of earlier releases report it to this one.
    imposed: ['mostPerSandbox'],
  },
  {
    name: /^Stored[A-Z]/,
    where: /\.tsx?$/,
    say: 'Local… (on this machine) or Remote… (in the object store)',
  },
  {
    name: /^#?held(?:[A-Z]|$)|[a-z]Held(?:[A-Z]|$)|^Held[A-Z]/,
    where: /^src\/.*\.ts$/,
    say: 'what it is: frozen, queued, buffered, reserved, protected, acquired',
    butInTests: true,
  },
  {
    name: /^#?(?:move|moves|moved|moving|mover)(?:[A-Z]|$)|[a-z](?:Move|Moves|Moved|Moving|Mover)(?:[A-Z]|$)/,
    where: /^src\/(?:core|store|peers|api)\//,
    say: 'transition (a state) or migrate (a node)',
  },
  {
    name: /^#?away(?:[A-Z]|$)|[a-z]Away(?:[A-Z]|$)/,
    where: /^src\/(?:core\/cluster|peers|store)\//,
    say: 'unreachable (does not answer) or forgotten (was removed)',
  },
]

/** Every name of the sources, keyed by path, that the glossary has replaced. */
export function replacedNames(sources: ReadonlyMap<string, string>): string[] {
  return [...sources].flatMap(([path, source]) => {
    const rules = replaced.filter(
      ({ where, butInTests }) => where.test(path) && !(butInTests && isTestCode(path)),
    )
    if (rules.length === 0) return []
    const names = new Set(maskTexts(source).match(/#?[A-Za-z_$][\w$]*/g))
    return rules.flatMap(({ name, say, imposed }) =>
      [...names]
        .filter((one) => name.test(one) && !imposed?.includes(one))
        .map((one) => `${path} has ${one}: say ${say}`),
    )
  })
}
