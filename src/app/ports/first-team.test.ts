import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { TeamService } from '../../core/team/service.ts'
import { ManualClock } from '../../lib/clock.ts'
import { openStores } from '../../store/open-stores.ts'
import { vault } from '../../store/suite/rows.ts'
import { openDataFolder } from '../data/data-folder.ts'
import { ensureFirstTeam } from './first-team.ts'

test('two Warrens that start at once on an empty database share the first team, with a key each', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-first-team-'))
  const stores = await openStores({ url: undefined, dataFolder: folder, vault, nodeID: 'one' })
  try {
    const teams = new TeamService({ ...stores, clock: new ManualClock() })
    const bothLooked = Promise.withResolvers<void>()
    let looks = 0
    const listTeams = async () => {
      const found = await teams.listTeams()
      if (++looks === 2) bothLooked.resolve()
      await bothLooked.promise
      return found
    }
    const starts = ['first', 'second'].map(async (name) => {
      const slow = {
        listTeams,
        createTeam: teams.createTeam.bind(teams),
        createKey: teams.createKey.bind(teams),
      }
      return ensureFirstTeam(slow, await openDataFolder(join(folder, name)))
    })
    const [one, other] = await Promise.all(starts)
    assert.equal(one!.teamID, other!.teamID)
    assert.notEqual(one!.apiKey, other!.apiKey)
    assert.equal((await teams.listTeams()).length, 1)
  } finally {
    await stores.close()
    rmSync(folder, { recursive: true })
  }
})
