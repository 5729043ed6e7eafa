/**
 * Which test files run when, beside what and against what, told from where they lie and what they use:
 *
 * - Files of e2e, security and chaos, and the driver's with real sandboxes (src/drivers/oci/oci-*), are whole tests.
 *   Those that use `isolations` run once under each, the others test what does not depend on it and run once.
 * - Whole tests run beside each other. Those that take their Warren from `joinWarren` share one server of their
 *   isolation. Those that call `startWarren` come after them.
 * - What uses the outside world of the network tests waits for its turn, since its addresses exist once on a machine;
 *   such files come first, so that the last of them does not keep the run waiting.
 * - Slow whole tests take turns from commit to commit (`turn`): one that names both isolations runs under one of them,
 *   every second one that has one isolation does not run. `npm run test:all` runs everything.
 * - Files of test/long are whole tests that take minutes by themselves; only `npm run test:long` runs them.
 * - Everything else is a unit test. Most of those share a process; some have one of their own.
 */
import type { Isolation } from './warren.ts'

/** Unit tests that change what others in their process would see, or hold so much that these would run short of it. */
const ownProcess: Record<string, string> = {
  'src/agent/process/flow.test.ts': 'measures the memory of its process',
  'src/drivers/host/namespace/pinned-namespaces.test.ts': 'counts the children and open files of its process',
  'src/lib/run-list.test.ts': 'counts the children of its process',
  'test/images.test.ts': 'reads images of hundreds of megabytes',
  'test/statements.test.ts': 'counts the statements of its process',
  'test/simulation/simulation.test.ts': 'takes time and randomness into its own hands',
}
/** Outside of a suite, such a hook would run around every test of the process. */
const hooksEveryTest = (source: string) => /^(beforeEach|afterEach)\(/m.test(source)

/** Its tests lie in the file of a suite, and node:test tells them of that one. */
const hasOnlySuites = (source: string) =>
  /\w+Suite\(/.test(source) && !/\b(test|it|suite|describe)\(/.test(source)

export const isLong = (path: string) => path.startsWith('test/long/')
const isWhole = (path: string) => /^test\/(e2e|security|chaos|long)\/|^src\/drivers\/oci\/oci-/.test(path)
const isPerIsolation = (source: string) => /\bisolations\b/.test(source)
const joinsServer = (source: string) => /\bjoinWarren\(/.test(source) && !/\bstartWarren\(/.test(source)
const usesOutside = (source: string) =>
  /\b(Outside|NamedWorld|networkSuite|egressSuite|gateSuite)\b/.test(source)
const usesLongCounts = (source: string) =>
  /\b(countOf|momentsOf)\(|\b(ociSnapshotSuite|survivalSuite|forkBombSuite)\b/.test(source)

export type SourceFile = { path: string; source: string }
export type PlannedFile = { name: string; path: string; lock?: string }
export type WholeTest = PlannedFile & { isolation: Isolation; joins: boolean }
/** `postponed`: what it is the next commit's turn to run. */
export type Plan = { units: PlannedFile[][]; whole: WholeTest[]; postponed: WholeTest[] }
export type Turn = 0 | 1

/** Seconds that each took once, by its name in the plan. */
export type Times = Record<string, number>

export type PlanOptions = {
  files: SourceFile[]
  isolations: readonly Isolation[]
  times: Times
  /** So many processes share the unit tests. */
  unitGroups: number
  /** Only what takes long, or has a long form of its counts. */
  long?: boolean
  /** Undefined: nothing is postponed. */
  turn?: Turn | undefined
}

/** Seconds from which a file takes turns: one that runs under each isolation, and one that runs under one. */
const slowPairSeconds = 10
const slowSeconds = 20

export function planRun({ files, isolations, times, unitGroups, long = false, turn }: PlanOptions): Plan {
  const chosen = files.filter(({ path, source }) => !long || isLong(path) || usesLongCounts(source))
  const units = chosen.filter(({ path }) => !isWhole(path))
  const apart = units.filter(
    ({ path, source }) => path in ownProcess || hooksEveryTest(source) || hasOnlySuites(source),
  )
  const together = units.filter((file) => !apart.includes(file))
  const whole = chosen
    .filter(({ path }) => isWhole(path))
    .flatMap((file) => {
      const under = isPerIsolation(file.source) ? isolations : isolations.slice(0, 1)
      return under.map((isolation) => wholeTest(file, isolation))
    })
  const postponed = turn === undefined ? [] : postponedIn(turn, whole, times)
  return {
    postponed,
    units: [
      ...longestFirst(apart.map(named), times).map((file) => [file]),
      ...inGroups(longestFirst(together.map(named), times), unitGroups, times),
    ],
    whole: longestFirst(
      whole.filter((file) => !postponed.includes(file)),
      times,
    ).toSorted((a, b) => rank(a) - rank(b)),
  }
}

/** Every second of the slow files, from the slowest on, so that both turns take about as long. */
function postponedIn(turn: Turn, whole: WholeTest[], times: Times): WholeTest[] {
  const byPath = Object.values(Object.groupBy(whole, ({ path }) => path)) as WholeTest[][]
  const measured = byPath
    .filter((files) => files.every(({ name }) => name in times))
    .map((files) => ({ files, seconds: sum(files.map(({ name }) => times[name]!)) / files.length }))
    .toSorted((a, b) => b.seconds - a.seconds)
  const pairs = measured.filter(({ files, seconds }) => files.length > 1 && seconds >= slowPairSeconds)
  const singles = measured.filter(({ files, seconds }) => files.length === 1 && seconds >= slowSeconds)
  return [
    ...pairs.flatMap(({ files }, at) => files.filter((_, under) => under !== (at + turn) % files.length)),
    ...singles.flatMap(({ files }, at) => (at % 2 === turn ? [] : files)),
  ]
}

const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0)

const named = ({ path }: SourceFile): PlannedFile => ({ name: path, path })

function wholeTest({ path, source }: SourceFile, isolation: Isolation): WholeTest {
  const lock = usesOutside(source) ? { lock: 'outside' } : {}
  return { name: `${path} (${isolation})`, path, isolation, joins: joinsServer(source), ...lock }
}

const rank = ({ lock, joins }: WholeTest) => (lock ? 0 : joins ? 1 : 2)

/** A file that nobody measured may be the longest. */
const secondsOf = (file: PlannedFile, times: Times) => times[file.name] ?? Number.POSITIVE_INFINITY

function longestFirst<File extends PlannedFile>(files: File[], times: Times): File[] {
  const seconds = new Map(files.map((file) => [file, secondsOf(file, times)]))
  return files.toSorted((a, b) => (seconds.get(a) === seconds.get(b) ? 0 : seconds.get(b)! - seconds.get(a)!))
}

/** Makes groups of nearly the same length: each file joins the group that has least so far. */
function inGroups(files: PlannedFile[], count: number, times: Times): PlannedFile[][] {
  const groups = Array.from({ length: count }, () => ({ files: [] as PlannedFile[], seconds: 0 }))
  for (const file of files) {
    const shortest = groups.reduce((min, group) => (group.seconds < min.seconds ? group : min))
    shortest.files.push(file)
    shortest.seconds += times[file.name] ?? 1
  }
  return groups.map((group) => group.files).filter((group) => group.length > 0)
}
