/** Runs histories of the core against its rules, or one of them again. */
import { parseArgs } from 'node:util'
import { errorText } from '../../src/lib/app-error.ts'
import { runHistory } from './history.ts'
import { drawnProfiles, type PlanOptions } from './plan.ts'
import { isOfCluster, planHistory } from './plan-history.ts'
import { explain, openDatabase, search, seedsFrom } from './search.ts'
import { survey } from './survey.ts'
import { runInWorkers, work } from './workers.ts'

const help = `npm run simulate                       runs 1,000 histories with new seeds
npm run simulate -- --histories 5000   runs this number of histories
npm run simulate -- --for 10m          runs for this time (s, m or h)
npm run simulate -- --from 7           begins with this seed
npm run simulate -- --nodes 3          has a cluster of three nodes in every history
npm run simulate -- --profile drains   has histories of this profile alone (profiles.ts)
npm run simulate -- --survey           continues after a broken rule, and reports at the end how often each was broken
npm run simulate -- --workers 16       runs them in this number of processes, and prints every broken rule with its seed
npm run simulate -- --seed 7           replays one history and prints its trace
npm run simulate -- --seed 7 --shrink  prints the trace of the smallest history that breaks the same rule`

// Kysely freezes every part of every statement, which takes a fifth of a history. Nothing that is simulated relies on it.
Object.freeze = <T>(value: T): T => value

const values = readOptions()
const plan = readPlan()
const history = {
  ...(values['trusts-record'] && { trustsRecord: true }),
}

if (values.worker) await work({ plan, history })
else if (values.seed !== undefined) process.exitCode = await replay(Number(values.seed))
else if (values.workers !== undefined) process.exitCode = await goOnInWorkers(Number(values.workers))
else process.exitCode = await goOn()

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        seed: { type: 'string' },
        shrink: { type: 'boolean' },
        histories: { type: 'string' },
        for: { type: 'string' },
        from: { type: 'string' },
        nodes: { type: 'string' },
        profile: { type: 'string' },
        survey: { type: 'boolean' },
        workers: { type: 'string' },
        // One of the processes that --workers starts.
        worker: { type: 'boolean' },
        // Faults put back in by hand.
        'trusts-record': { type: 'boolean' },
        help: { type: 'boolean' },
      },
    })
    if (!values.help) return values
    console.log(help)
    process.exit(0)
  } catch (error) {
    console.error(`${errorText(error)}\n\n${help}`)
    process.exit(2)
  }
}

function readPlan(): PlanOptions {
  const profile = drawnProfiles.find((name) => name === values.profile)
  if (values.profile !== undefined && !profile && values.profile !== 'usual') {
    console.error(`There is no profile '${values.profile}'; see profiles.ts.`)
    process.exit(2)
  }
  const nodes = values.nodes ?? (profile && isOfCluster(profile) ? '3' : undefined)
  return {
    ...(nodes && { nodes: Number(nodes) }),
    ...(profile && { profile }),
    ...(values.profile === 'usual' && { profile: null }),
  }
}

async function replay(seed: number): Promise<number> {
  const database = await openDatabase()
  const { violations, trace } = await runHistory(database, planHistory(seed, plan), {
    ...history,
    trace: true,
  })
  const [violation] = violations
  if (violation && values.shrink) {
    console.log(await explain(database, { seed, violation, histories: 1 }, { plan, history }))
  } else console.log(trace.join('\n'))
  console.log(
    violation ? `seed ${seed} breaks a rule: ${violation.message}` : `seed ${seed} keeps every rule`,
  )
  return violation ? 1 : 0
}

/** Which histories to go through: the first seed, how many, and for how long. */
function readRange(): { first: number; histories: number; forMs: number | undefined } {
  const forMs = values.for === undefined ? undefined : duration(values.for)
  const first = Number(values.from ?? Math.floor(Math.random() * 2 ** 31))
  return { first, histories: Number(values.histories ?? (forMs ? Number.POSITIVE_INFINITY : 1000)), forMs }
}

async function goOnInWorkers(workers: number): Promise<number> {
  const words = (['nodes', 'profile'] as const).flatMap((name) =>
    values[name] === undefined ? [] : [`--${name}`, values[name]],
  )
  const alarms = await runInWorkers({ plan, history, workers, words, ...readRange() })
  return alarms > 0 ? 1 : 0
}

async function goOn(): Promise<number> {
  const database = await openDatabase()
  const { first, histories: count, forMs } = readRange()
  const until = performance.now() + (forMs ?? Number.POSITIVE_INFINITY)
  let histories = 0
  function* seeds() {
    for (const seed of seedsFrom(first, count)) {
      if (performance.now() > until) return
      histories++
      yield seed
    }
  }
  if (values.survey) {
    console.log(await survey(database, seeds(), { plan, history }))
    return 0
  }
  const found = await search(database, seeds(), { plan, history })
  console.log(`${histories} histories from seed ${first} on`)
  if (found) console.log(await explain(database, found, { plan, history }))
  return found ? 1 : 0
}

function duration(text: string): number {
  const [, number, unit] = /^(\d+)([smh])$/.exec(text) ?? []
  if (!number) throw new Error(`--for takes a number and s, m or h, such as 10m; '${text}' is neither.`)
  return Number(number) * { s: 1000, m: 60_000, h: 3_600_000 }[unit as 's' | 'm' | 'h']
}
