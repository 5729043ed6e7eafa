/** Chooses the isolation of sandboxes: the configured one, or the strongest that works here. */
import type { Driver } from '../../core/ports/driver.ts'
import { AppError } from '../../lib/app-error.ts'
import { StartRefusal } from '../process/start-refusal.ts'
import type { DriverParts, InstalledRuntimes } from './isolation-runtime.ts'
import {
  candidatesOf,
  type Isolation,
  type IsolationName,
  type Isolations,
  isolations,
  namesOf,
} from './isolations.ts'

export type ChosenIsolation<Name extends string = IsolationName> = {
  driver: Driver
  isolation: Name
  /** Set if sandboxes get a weaker isolation than the strongest although nobody asked for that. */
  fallback?: IsolationFallback
}

type IsolationFallback = {
  /** What happened, why, and what to do. */
  warning: string
  /** The same in two sentences without the reason, for those who cannot change it. */
  notice: { what: string; weakness: string }
}

type Refused = { isolation: Isolation; why: string }

export async function chooseIsolation<Table extends Isolations = typeof isolations>(
  wanted: string,
  runtimes: InstalledRuntimes,
  parts: DriverParts,
  table: Table = isolations as unknown as Table,
): Promise<ChosenIsolation<keyof Table & string>> {
  const refused: Refused[] = []
  for (const name of candidatesOf(wanted, table)) {
    const isolation: Isolation = table[name]!
    const tried = await tryIsolation(isolation, runtimes[name], parts)
    if ('driver' in tried) {
      const chosen = { driver: tried.driver, isolation: name }
      return refused.length === 0
        ? chosen
        : { ...chosen, fallback: fallbackTo(name, isolation, refused, table) }
    }
    refused.push({ isolation, why: tried.why })
  }
  const { isolation, why } = refused.at(-1)!
  const weaker = namesOf(table)[namesOf(table).indexOf(wanted) + 1]
  if (wanted === 'auto' || weaker === undefined)
    throw new StartRefusal('unavailable', `Sandboxes cannot run here: ${why}`)
  throw new AppError(
    'unavailable',
    `WARREN_ISOLATION is ${wanted}, but ${isolation.label} does not work here: ${why} ` +
      `\`warren doctor\` says more; WARREN_ISOLATION=${weaker} uses ${table[weaker]!.longLabel}.`,
  )
}

async function tryIsolation(
  isolation: Isolation,
  runtime: InstalledRuntimes[string],
  parts: DriverParts,
): Promise<{ driver: Driver } | { why: string }> {
  if (!runtime || 'missing' in runtime) return { why: runtime?.missing ?? 'Its runtime is not installed.' }
  const driver = (await isolation.loadRuntime()).createDriver(runtime.program, parts)
  const probe = await driver.probe()
  if (probe.usable) return { driver }
  await driver.close()
  return { why: `${probe.reason}. ${probe.remedy}` }
}

function fallbackTo(
  name: string,
  { label, longLabel, protection, weakness }: Isolation,
  refused: readonly Refused[],
  table: Isolations,
): IsolationFallback {
  const [strongest] = namesOf(table)
  const labels = refused.map(({ isolation }) => isolation.label).join(' and ')
  const reasons = refused.map(({ isolation, why }) => `${isolation.label} does not work here: ${why}`)
  const remedies = refused.flatMap(({ isolation }) => isolation.remedy ?? [])
  const warning = [
    `${protection[0]!.toUpperCase()}${protection.slice(1)}, because ${reasons.join(' ')}`,
    weakness,
    `${[...remedies, '`warren doctor` says more'].join('; ')}.`,
    `WARREN_ISOLATION=${strongest} never starts without ${table[strongest!]!.label}; ` +
      `WARREN_ISOLATION=${name} accepts ${label} and ends this warning.`,
  ]
  return {
    warning: warning.filter(Boolean).join(' '),
    notice: {
      what: `Sandboxes on this server are ${longLabel}, because ${labels} does not work on it.`,
      weakness: weakness ?? '',
    },
  }
}
