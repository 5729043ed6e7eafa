/** The house rules of ARCHITECTURE.md as data, and the one function that holds a file against them. */
import { posix } from 'node:path'
import { arrowsUp, missingFloor } from './floors.ts'
import { importsOf, maskTexts } from './source-text.ts'

/** Which rooms each room may import, besides node: and itself. */
export const mayImport: Record<string, readonly string[]> = {
  bin: ['app', 'cli'],
  lib: [],
  contract: ['lib'],
  core: ['lib'],
  store: ['core', 'lib'],
  logs: ['core', 'lib'],
  objects: ['core', 'lib'],
  volumes: ['core', 'lib'],
  drivers: ['core', 'lib'],
  images: ['core', 'lib'],
  agent: ['contract', 'lib'],
  interpreter: ['contract', 'lib'],
  'agent-client': ['core', 'contract', 'lib'],
  api: ['core', 'contract', 'lib'],
  edge: ['core', 'contract', 'lib'],
  egress: ['core', 'lib'],
  peers: ['core', 'contract', 'lib'],
  webhooks: ['core', 'lib'],
  identity: ['core', 'lib'],
  mcp: ['contract', 'lib'],
  'mcp-gateway': ['lib'],
  cli: ['contract', 'lib'],
  'docs-site': ['lib'],
  dashboard: ['contract', 'lib'],
  app: [
    ...['lib', 'contract', 'core', 'store', 'logs', 'volumes', 'drivers', 'images', 'agent', 'agent-client'],
    ...['api', 'edge', 'egress', 'peers', 'webhooks', 'identity', 'mcp', 'cli', 'docs-site', 'objects'],
  ],
}

/** What the dashboard may run of other rooms. */
const forBrowsers = ['src/lib/clock.ts', 'src/lib/dockerfile/parse.ts']

const withoutPackages: Record<string, string> = {
  core: 'the domain must run and be tested with nothing around it',
  lib: 'every folder imports it, the agent included, so it imports none of them',
}

/** The modules of node: that core may import. Core uses no I/O of them: of `node:net` only the check of addresses. */
const ofNodeInCore = /^node:(?:crypto|net|path|stream|util)$/

const onlyInFolder: { names: RegExp; folder: string; reason: string }[] = [
  {
    names: /^openid-client$/,
    folder: 'identity',
    reason:
      'what a provider says is checked in one place, and the library is loaded only where somebody signs in',
  },
  {
    names: /^@aws-sdk\//,
    folder: 'objects',
    reason: 'the SDK is loaded only where there is an object store',
  },
  {
    names: /^(?:kysely|pg|pg-.*|node:sqlite)$/,
    folder: 'store',
    reason: 'SQL lives in the store alone, so that one suite proves both engines',
  },
]

type Ban = {
  what: string
  code: RegExp
  /** Files, or folders with a slash at the end. */
  onlyIn: readonly string[]
  /** Only there; everywhere where nothing is said. */
  folder?: string
  reason: string
}

const bans: Ban[] = [
  {
    what: 'process.env',
    code: /\bprocess\s*\??\.\s*env\b/,
    // In the next two they are variables of a sandbox: those of a cell, and those of its owner. The last two hand them on
    // to programs as they are.
    onlyIn: [
      ...['src/app/config/config.ts', 'src/interpreter/kernels/javascript.ts', 'src/mcp-gateway/main.ts'],
      'src/app/config/client-variables.ts',
      'src/lib/proxy-variables.ts',
      'src/lib/spawn-by-call.ts',
    ],
    reason: 'settings are read once and checked in one schema, so that `warren config` shows all there are',
  },
  {
    what: 'its own time',
    code: /\bDate\s*\.\s*now\b|\bnew\s+Date\s*(?:\(\s*\)|(?![\s(]))/,
    onlyIn: ['src/lib/clock.ts'],
    reason: 'time comes from a Clock that a test can turn by hand',
  },
  {
    what: 'its own timers',
    code: /\bAbortSignal\s*\.\s*timeout\b|\bperformance\s*\.\s*now\b|\bsetInterval\b|(?<!\.)\bsetTimeout\s*\(\s*(?:\(|\w+,)/,
    folder: 'core',
    onlyIn: ['src/lib/clock.ts'],
    reason: 'time comes from a Clock that a test can turn by hand',
  },
  {
    what: 'its own randomness',
    code: /\bMath\s*\.\s*random\b|\b(?:randomBytes|randomUUID|randomInt|randomFill(?:Sync)?|getRandomValues)\b/,
    // A browser has no node:crypto, which src/lib/ids.ts uses.
    onlyIn: ['src/lib/ids.ts', 'src/dashboard/browser/rest.ts'],
    reason: 'ids and secrets are made in one place, where their strength can be seen',
  },
  {
    what: '.transition(',
    code: /\.\s*transition\s*\(/,
    onlyIn: [
      ...['creator', 'pauser', 'resumer', 'copier', 'ender', 'arrivals'].map(
        (verb) => `src/core/sandbox/verbs/${verb}.ts`,
      ),
      ...['sandbox-turns', 'retrying-store'].map((file) => `src/core/sandbox/row/${file}.ts`),
    ],
    reason: "a sandbox's state changes only in the files of its verbs, where every transition can be seen",
  },
  {
    what: 'a private part of Node or V8',
    code: /\._(?:handle|httpMessage|listen2|read)\b|\bonSocket\b|\bsetFlagsFromString\b|\bhttpAllowHalfOpen\b|\brunInNewContext\b/,
    onlyIn: ['src/lib/node-internals/'],
    reason: 'nobody promises that it stays, so each is in one folder with the test that tells when it goes',
  },
  {
    what: 'a spread of an object literal',
    code: /\.\.\.\{/,
    onlyIn: [],
    reason: 'it only packs lines: write its properties out',
  },
  {
    what: 'one line for several constants',
    code: /^(?:export )?const \[[^\]]*,[^\]]*\] = \[[^[\]]*\]$/m,
    onlyIn: [],
    reason: 'a constant has a line of its own, where its comment and its unit can stand',
  },
  {
    what: 'a row of a turn by a cast',
    code: /\bas\s+(?:\w*InTurn)\b/,
    onlyIn: ['src/lib/turns.ts', 'src/core/sandbox/row/sandbox-turns.ts'],
    reason: 'only a turn gives such a row: what acts on a row relies on it being as it was just read',
  },
]

export const longestFile = 400

/** Every rule that the file breaks, as a sentence with its reason. `path` is relative to the repository. */
export function violationsOf(path: string, source: string): string[] {
  if (isTestCode(path)) return [...lengthViolations(path, source), ...stackedComments(path, source)]
  const folder = topFolderOf(path)
  if (folder === undefined || !(folder in mayImport))
    return [`${path} is in no room of the house: add it to the table`]
  return [
    ...missingFloor(path),
    ...importsOf(source).flatMap((found) => importViolations(path, folder, found)),
    ...banViolations(path, folder, maskTexts(source)),
    ...lengthViolations(path, source),
    ...stackedComments(path, source),
  ]
}

/** The tables from error code to status must be one per room that has a protocol of its own. */
export function errorTableViolations(files: ReadonlyMap<string, string>): string[] {
  const reason = 'one table per protocol, checked by the compiler, decides what a failure looks like outside'
  const tables = [...files].filter(
    ([path, source]) => !isTestCode(path) && errorTable.test(maskTexts(source)),
  )
  const paths = tables.map(([path]) => path)
  const elsewhere = paths.filter((path) => !foldersWithErrorTable.includes(topFolderOf(path) ?? ''))
  const violations = elsewhere.map(
    (path) => `${path} maps error codes, which only api and agent do: ${reason}`,
  )
  for (const folder of foldersWithErrorTable) {
    const inFolder = paths.filter((path) => topFolderOf(path) === folder)
    if (inFolder.length > 1) violations.push(`${inFolder.join(' and ')} both map error codes: ${reason}`)
  }
  return violations
}

/** Files that import each other in a loop, types included: none of them can be understood or moved alone. */
export function importCircles(sources: ReadonlyMap<string, string>): string[] {
  const circles: string[] = []
  const finished = new Set<string>()
  const visit = (path: string, above: readonly string[]): void => {
    const start = above.indexOf(path)
    if (start >= 0) circles.push([...above.slice(start), path].join(' -> '))
    if (start >= 0 || finished.has(path)) return
    for (const { specifier } of importsOf(sources.get(path)!)) {
      if (!specifier?.startsWith('.')) continue
      const target = posix.join(posix.dirname(path), specifier)
      if (sources.has(target)) visit(target, [...above, path])
    }
    finished.add(path)
  }
  for (const path of sources.keys()) visit(path, [])
  return circles
}

const errorTable = /\bRecord<\s*ErrorCode\b/
const foldersWithErrorTable = ['api', 'agent']

/** Tests and suites may join rooms, turn clocks and read the environment; code that is shipped may not use them. */
export function isTestCode(path: string): boolean {
  return /(?:\.test|-suite|-fixture|\/suite\/[^/]*)\.ts$/.test(path)
}

function topFolderOf(path: string): string | undefined {
  const [top, folder, ...rest] = path.split('/')
  if (top === 'bin') return 'bin'
  return top === 'src' && rest.length > 0 ? folder : undefined
}

const carriesHttp = (specifier: string): boolean => specifier.includes('/lib/http-relay/')

type FoundImport = ReturnType<typeof importsOf>[number]

function importViolations(path: string, folder: string, { specifier, typeOnly }: FoundImport): string[] {
  if (specifier === undefined) return [`${path} imports a computed name: no table can hold it; write it out`]
  for (const { names, folder: home, reason } of onlyInFolder) {
    if (names.test(specifier) && folder !== home) return [`${path} imports ${specifier}: ${reason}`]
  }
  if (
    folder === 'core' &&
    (specifier.startsWith('node:') ? !ofNodeInCore.test(specifier) : carriesHttp(specifier))
  )
    return [
      `${path} imports ${specifier}: ${withoutPackages.core}, so I/O and HTTP stay outside, behind a port`,
    ]
  if (specifier.startsWith('node:')) return []
  if (!specifier.startsWith('.')) {
    const reason = withoutPackages[folder]
    return reason ? [`${path} imports the package ${specifier}; ${folder} takes none: ${reason}`] : []
  }
  const target = posix.join(posix.dirname(path), specifier)
  if (target.endsWith('.json')) return []
  if (isTestCode(target) || target.startsWith('test/')) return [`${path} imports test code (${target})`]
  const targetFolder = topFolderOf(target)
  if (targetFolder === undefined) return [`${path} imports ${target}, which is in no room`]
  if (targetFolder === folder) return arrowsUp(path, target)
  if (!mayImport[folder]!.includes(targetFolder)) {
    const allowed = mayImport[folder]!.join(', ') || 'no other room'
    const reason = 'what a room needs of another is a port in core, handed over in app'
    return [`${path} imports ${target}; ${folder} may import ${allowed}: ${reason}`]
  }
  if (folder === 'dashboard' && !typeOnly && !forBrowsers.includes(target))
    return [`${path} imports ${target}; the dashboard takes only types: it runs in a browser`]
  return []
}

function banViolations(path: string, folder: string, code: string): string[] {
  const broken = bans.filter(
    (ban) =>
      (ban.folder ?? folder) === folder &&
      !ban.onlyIn.some((home) => path === home || (home.endsWith('/') && path.startsWith(home))) &&
      ban.code.test(code),
  )
  const home = ({ onlyIn }: Ban) => (onlyIn.length > 0 ? `, which belongs in ${onlyIn}` : '')
  return broken.map((ban) => `${path} uses ${ban.what}${home(ban)}: ${ban.reason}`)
}

function lengthViolations(path: string, source: string): string[] {
  const generated = /^src\/contract\/rpc\/.*_pb\.ts$/.test(path)
  if (!path.startsWith('src/') || !/\.tsx?$/.test(path) || generated) return []
  const lines = source.trimEnd().split('\n').length
  if (lines <= longestFile) return []
  return [`${path} has ${lines} lines, more than ${longestFile}: split it, so that it fits a reader's head`]
}

/** A comment belongs to the code below it, so a second one cannot stand between them. */
function stackedComments(path: string, source: string): string[] {
  const lines = source.split('\n').map((line) => line.trim())
  const isStacked = (line: string, at: number) =>
    line.endsWith('*/') &&
    /^(?:\/\*\*|\*)/.test(line) &&
    /^(?:\/\*\*|\/\/ (?!biome-ignore))/.test(lines[at + 1] ?? '')
  return lines.some(isStacked)
    ? [`${path} has a comment on top of another one: what is the first about?`]
    : []
}

/** Names that two types may share, and why. */
const sharedOnPurpose = new Set([
  // The agent cannot import core; both say what the log of a sandbox knows.
  'LogLevel',
])

/** What the wire and the domain call by one name are two shapes of one thing. Fixtures and suites are left out. */
export function sharedTypeNames(sources: ReadonlyMap<string, string>): string[] {
  const paths = new Map<string, string[]>()
  for (const [path, source] of sources) {
    if (/^src\/contract\/|(?:\.test|-fixture|-suite)\.ts$|\/suite\//.test(path)) continue
    for (const [, name] of source.matchAll(/^export (?:abstract )?(?:type|interface|class) (\w+)/gm)) {
      paths.set(name!, [...(paths.get(name!) ?? []), path])
    }
  }
  return [...paths]
    .filter(([name, paths]) => paths.length > 1 && !sharedOnPurpose.has(name))
    .map(([name, paths]) => `${name}: ${paths.join(', ')}`)
}
