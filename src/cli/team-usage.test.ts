import assert from 'node:assert/strict'
import test from 'node:test'
import type { AdminClient, BudgetChanges } from './admin-client.ts'
import { UsageError } from './arguments.ts'
import { usageVerbs } from './team-usage.ts'
import { runVerb } from './verbs.ts'

const usage = {
  from: '2026-11-01',
  to: '2026-11-20',
  days: [
    {
      day: '2026-11-02',
      teamID: 'id-1',
      sandboxSeconds: 7200,
      cpuSeconds: 14_400,
      memoryGiBSeconds: 3600,
      gpuSeconds: 0,
      sentBytes: 2 ** 30,
      storedGiBSeconds: 86_400,
    },
  ],
  budget: {
    month: '2026-11',
    limits: { cpuHours: 4, gpuHours: null, sentGB: null },
    used: { cpuHours: 4, gpuHours: 0, sentGB: 1 },
    state: 'used up' as const,
  },
}

let changed: BudgetChanges | undefined
const client = {
  findTeam: async () => ({ teamID: 'id-1', slug: 'research' }),
  listTeams: async () => [{ teamID: 'id-1', slug: 'research' }],
  readUsage: async (_: string | undefined, { by }: Record<string, string>) =>
    by === 'person' ? { ...usage, days: [{ ...usage.days[0]!, personID: 'p1' }] } : usage,
  changeBudget: async (_: string, changes: BudgetChanges) => {
    changed = changes
    return usage.budget
  },
}
const connect = async () => client as unknown as AdminClient
const table = { name: 'team', does: 'teams', verbs: usageVerbs }

test('warren team usage shows what was used, as a table, for spreadsheets and by person', async () => {
  const one = await runVerb(table, ['usage', 'research', '--from', '2026-11-01'], connect)
  assert.match(
    one,
    /^DAY +TEAM +SANDBOX HOURS .*\n2026-11-02 +research +2\.00 +4\.00 +1\.00 +0\.00 +1\.00 +1\.00\n/,
  )
  assert.match(one, /Budget of +2026-11, used up\nCPU hours +4\.00 of 4\nGPU hours +0\.00 of any number/)
  const csv = await runVerb(table, ['usage', 'research', '--csv', '--from', '2026-11-01'], connect)
  assert.match(csv, /^day,teamID,sandboxSeconds,.*\n2026-11-02,id-1,7200,/)
  assert.match(await runVerb(table, ['usage', '--by', 'person'], connect), /PERSON .*\n.* p1 /)
  for (const bad of [
    ['usage', '--from', 'soon'],
    ['usage', '--by', 'day'],
    ['usage', 'one', 'two'],
  ])
    await assert.rejects(runVerb(table, bad, connect), UsageError)
})

test('warren team budget sets, removes and shows a budget', async () => {
  assert.match(
    await runVerb(table, ['budget', 'research', '--cpu-hours', '4', '--gpu-hours', 'none'], connect),
    /used up/,
  )
  assert.deepEqual(changed, { cpuHours: 4, gpuHours: null })
  assert.match(await runVerb(table, ['budget', 'research'], connect), /CPU hours +4\.00 of 4/)
  for (const number of ['0', '-1', 'many', '1e9'])
    await assert.rejects(runVerb(table, ['budget', 'research', '--cpu-hours', number], connect), UsageError)
})
