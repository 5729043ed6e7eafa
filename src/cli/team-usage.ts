/** `warren team usage` and `warren team budget`: what teams used by day, and what they may use in a month. */
import type { UsageOfDay, UsageReport, UsedBudget } from '../contract/rest/usage.ts'
import type { AdminClient, BudgetChanges } from './admin-client.ts'
import { UsageError } from './arguments.ts'
import { asJson, listing, table } from './output.ts'
import type { Given, VerbTable } from './verbs.ts'

type Connect = () => Promise<AdminClient>

const hour = 3600
const gibibyte = 2 ** 30
const budgetOptions = { 'cpu-hours': 'cpuHours', 'gpu-hours': 'gpuHours', 'sent-gb': 'sentGB' } as const

export const usageVerbs: VerbTable<Connect>['verbs'] = {
  usage: {
    does: 'Tells what a team used by day; without a TEAM, what all used.',
    about: 'Days are those of UTC. CPU, memory and GPU count as sandboxes had them, used or not.',
    words: ['TEAM…'],
    texts: { from: 'DAY', to: 'DAY', by: 'person' },
    flags: ['csv'],
    options: {
      from: 'the first day, as in 2026-11-01 (default: 29 days before the last)',
      to: 'the last day (default: today)',
      by: 'a line for each person; else one for each team',
      csv: 'a table for spreadsheets',
    },
    run: usage,
  },
  budget: {
    does: 'Changes what a team may use in a month; without an option it shows it.',
    about: 'Beyond its budget a team gets no new sandboxes; those that run go on running.',
    words: ['TEAM'],
    texts: { 'cpu-hours': 'N', 'gpu-hours': 'N', 'sent-gb': 'N' },
    options: {
      'cpu-hours': 'hours of a CPU, or none (default: unchanged)',
      'gpu-hours': 'hours of a GPU, or none (default: unchanged)',
      'sent-gb': 'GiB that its sandboxes send, or none (default: unchanged)',
    },
    run: budget,
  },
}

async function usage({ words, values, flags, json }: Given, connect: Connect): Promise<string> {
  const { from, to, by } = values
  const [word] = words
  if (words.length > 1) throw new UsageError('Name one team, or none for all teams.', 'warren team usage')
  if (by !== undefined && by !== 'person' && by !== 'team')
    throw new UsageError(`--by is person or team, not '${by}'.`, 'warren team usage')
  for (const [name, day] of Object.entries({ from, to }))
    if (day !== undefined && !/^\d{4}-\d\d-\d\d$/.test(day))
      throw new UsageError(`--${name} is a day as in 2026-11-20, not '${day}'.`, 'warren team usage')
  const client = await connect()
  const asked = { ...(from && { from }), ...(to && { to }), ...(by && { by }) }
  const teamID = word === undefined ? undefined : (await client.findTeam(word)).teamID
  const report = await client.readUsage(teamID, asked)
  if (json) return asJson(report)
  if (flags.has('csv')) return csvOf(report.days)
  const slugs = new Map((await client.listTeams()).map((team) => [team.teamID, team.slug]))
  return usageText(report, slugs)
}

function usageText(
  { days, from, to, budget }: Pick<UsageReport, 'days' | 'from' | 'to'> & { budget?: UsedBudget | null },
  slugs: ReadonlyMap<string, string>,
): string {
  const isByPerson = days.some(({ personID }) => personID !== undefined)
  const headings = ['DAY', 'TEAM', ...(isByPerson ? ['PERSON'] : []), 'SANDBOX HOURS', 'CPU HOURS']
  const more = ['GIB HOURS', 'GPU HOURS', 'GIB SENT', 'GIB STORED']
  const rows = days.map((day) => [
    day.day,
    slugs.get(day.teamID) ?? day.teamID,
    ...(isByPerson ? [day.personID ?? ''] : []),
    ...amounts(day),
  ])
  const shown =
    days.length === 0 ? `Nothing was used from ${from} to ${to}.` : table([...headings, ...more], rows)
  return budget ? `${shown}\n\n${budgetText(budget)}` : shown
}

function amounts(day: UsageOfDay): string[] {
  const hours = [day.sandboxSeconds, day.cpuSeconds, day.memoryGiBSeconds, day.gpuSeconds]
  return [
    ...hours.map((seconds) => (seconds / hour).toFixed(2)),
    (day.sentBytes / gibibyte).toFixed(2),
    (day.storedGiBSeconds / (24 * hour)).toFixed(2),
  ]
}

/** Ids, days and numbers alone, none of which needs quotes. */
function csvOf(days: readonly UsageOfDay[]): string {
  const columns = Object.keys(days[0] ?? {}) as (keyof UsageOfDay)[]
  return [columns, ...days.map((day) => columns.map((name) => day[name] ?? ''))].join('\n')
}

async function budget({ words: [word], values, json }: Given, connect: Connect): Promise<string> {
  const changes: BudgetChanges = {}
  for (const [name, bound] of Object.entries(budgetOptions)) {
    const text = values[name]
    if (text !== undefined) changes[bound] = text === 'none' ? null : positive(name, text)
  }
  const client = await connect()
  const { teamID, slug } = await client.findTeam(word!)
  const report =
    Object.keys(changes).length > 0
      ? await client.changeBudget(teamID, changes)
      : (await client.readUsage(teamID, {})).budget
  if (json) return asJson(report ?? null)
  return report
    ? budgetText(report)
    : `The team ${slug} has no budget. Set one: warren team budget ${slug} --cpu-hours 100`
}

function positive(name: string, text: string): number {
  const number = Number(text)
  if (/^\d+(\.\d+)?$/.test(text) && number > 0) return number
  throw new UsageError(`--${name} is a number above 0, or none, not '${text}'.`, 'warren team budget')
}

function budgetText({ month, limits, used, state }: UsedBudget): string {
  const of = (bound: keyof typeof limits) => `${used[bound].toFixed(2)} of ${limits[bound] ?? 'any number'}`
  return listing({
    'Budget of': `${month}, ${state}`,
    'CPU hours': of('cpuHours'),
    'GPU hours': of('gpuHours'),
    'GiB sent': of('sentGB'),
  })
}
