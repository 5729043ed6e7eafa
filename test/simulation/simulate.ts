/** `npm run simulate -- --seed N` replays one history; `--histories N` and `--for 10m` go through new ones. */
import { SimulatedDatabase } from './database.ts'
import { runHistory } from './history.ts'
import { planHistory } from './plan.ts'

const args = process.argv.slice(2)
const option = (name: string) => {
  const at = args.indexOf(`--${name}`)
  return at < 0 ? undefined : args[at + 1]
}
const database = await SimulatedDatabase.open()
const seed = option('seed')
if (seed !== undefined) {
  const { violations, trace } = await runHistory(database, planHistory(Number(seed)), { trace: true })
  console.log(trace.join('\n'))
  console.log(violations.length)
} else {
  const count = Number(option('histories') ?? 1000)
  const first = Number(option('from') ?? 1)
  const begin = performance.now()
  const found = new Map<string, number[]>()
  let steps = 0
  for (let at = first; at < first + count; at++) {
    const result = await runHistory(database, planHistory(at))
    steps += result.steps
    const [violation] = result.violations
    if (violation) found.set(violation.rule, [...(found.get(violation.rule) ?? []), at])
  }
  console.log(`${count} histories, ${steps} steps, ${Math.round(performance.now() - begin)} ms`)
  for (const [rule, seeds] of found) console.log(rule, seeds.length, seeds.slice(0, 8).join(' '))
}
