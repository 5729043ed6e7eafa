import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ManualClock } from '../../../lib/clock.ts'
import { silentLog } from '../../../lib/log.ts'
import { ConnectionShares } from './connection-shares.ts'
import { noTeam } from './team-share.ts'

const teams: Record<string, string> = { 'sandbox-1': 'red', 'sandbox-2': 'blue', pooled: noTeam }

test('the driver is told the team of each sandbox every second, and none for those of no team', async () => {
  const clock = new ManualClock()
  const present = ['sandbox-1', 'pooled']
  const shared: Record<string, string>[] = []
  let isDown = false
  const shares = new ConnectionShares({
    driver: {
      shareConnections: async (ownersOf) => {
        if (isDown) throw new Error('nft: failed')
        shared.push(Object.fromEntries(await ownersOf([...present, 'unknown'])))
      },
    },
    sandboxTeams: {
      of: async (ids) => new Map(ids.flatMap((id) => (id in teams ? [[id, teams[id]!]] : []))),
    },
    clock,
    log: silentLog,
  })
  shares.start()
  clock.advance(1000)
  await shares.close()
  present.push('sandbox-2')
  isDown = true
  await shares.look()
  isDown = false
  await shares.look()
  assert.deepEqual(shared, [{ 'sandbox-1': 'red' }, { 'sandbox-1': 'red', 'sandbox-2': 'blue' }])
})
