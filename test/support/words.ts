/** Names that the glossary of ARCHITECTURE.md has replaced, and where their words are still right. */
import { basename } from 'node:path'
import { maskTexts } from './source-text.ts'

type Replaced = {
  /** Matches a name with the word. */
  name: RegExp
  /** Paths of the files to which it applies. All, if it is not given. */
  where?: RegExp
  say: string
  /** Names in which the word has its plain meaning, or that others impose, each for the reason beside it. */
  right?: readonly string[]
}

const replaced: readonly Replaced[] = [
  {
    name: anyOf('most|least', 'start'),
    say: 'max… or min…',
    // Nodes of earlier releases report it to this one.
    right: ['mostPerSandbox'],
  },
  {
    name: /^Stored[A-Z]/,
    say: 'Local… (on this machine) or Remote… (in the object store)',
  },
  {
    name: anyOf('held|kept', 'anywhere'),
    say: 'what it is: frozen, queued, buffered, stored, cached, reserved, protected, acquired, remaining',
  },
  {
    name: anyOf('told|tell|tells|telling', 'anywhere'),
    say: 'who does what: reported, notified, logged, sent, printed',
  },
  {
    name: anyOf('hold|keep|take|takes|taken|took|place|places', 'alone'),
    say: 'what happens to what: acquire, reserve, claim, track, store, index, owner, location; or name the object',
    right: [
      // An option of `warren run`.
      'keep of src/cli/run.ts',
      // A method of Node's streams.
      'take of src/lib/spawn-by-call.test.ts',
    ],
  },
  {
    name: /^#?take(?:Paused|Row|Lease|Lock|Slot|Disk|Warm|Claim)/,
    say: 'claim (a row) or acquire (a lock, a slot, a warm sandbox)',
  },
  {
    name: anyOf('room|rooms', 'anywhere'),
    say: 'capacity, freeBytes, limit, or folder (of the sources)',
  },
  {
    name: /(?:^|[a-z#])(?:[sS]tandsStill|[sS]tandStill|[sS]toodStill)/,
    say: 'frozen (a sandbox), suspended (a machine of the simulation)',
  },
  {
    name: anyOf('move|moves|moved|moving|mover', 'anywhere'),
    where: /^src\/(?:core|store|peers|api)\//,
    say: 'transition (a state) or migrate (a node)',
    // A column, which earlier releases read too.
    right: ['move_id'],
  },
  {
    name: anyOf('away', 'anywhere'),
    where: /^src\/(?:core\/cluster|peers|store)\//,
    say: 'unreachable (does not answer) or forgotten (was removed)',
  },
]

/** Every name of the sources, keyed by path, that the glossary has replaced, and every such name of a file. */
export function replacedNames(sources: ReadonlyMap<string, string>): string[] {
  return [...sources].flatMap(([path, source]) => {
    const rules = replaced.filter(({ where }) => where?.test(path) ?? true)
    const names = new Set(namesIn(path, source))
    return rules.flatMap(({ name, say, right = [] }) =>
      [...names]
        .filter((one) => name.test(one) && !right.includes(one) && !right.includes(`${one} of ${path}`))
        .map((one) => `${path} has ${one}: say ${say}`),
    )
  })
}

/** The file's own name counts too, as if its parts were those of an identifier. */
function namesIn(path: string, source: string): string[] {
  const code = path.endsWith('.tsx') ? maskTexts(source).replace(shownText, ' ') : maskTexts(source)
  const own = basename(path).replace(/\..*$/, '')
  return [own.replace(/-([a-z])/g, (_, letter) => letter.toUpperCase()), ...(code.match(nameInCode) ?? [])]
}

const nameInCode = /#?[A-Za-z_$][\w$]*/g
/** Prose between tags and braces. */
const shownText = /(?<=[>}])[^<>{}()=;]*(?=[<{])/g

/** Matches names that consist of one of the words, begin with one, or have one at any place; the words are divided by `|`. */
function anyOf(words: string, where: 'alone' | 'start' | 'anywhere'): RegExp {
  const large = words.replace(/\b[a-z]/g, (letter) => letter.toUpperCase())
  if (where === 'alone') return new RegExp(`^#?(?:${words}|${large})$`)
  const end = '(?![a-z])'
  if (where === 'start') return new RegExp(`^#?_?(?:${words})${end}`)
  return new RegExp(`^#?(?:${words})${end}|(?:^#?|[a-z0-9_])(?:${large})${end}`)
}
