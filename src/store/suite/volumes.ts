import assert from 'node:assert/strict'
import type { Volume } from '../../core/volume/volume.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Stores } from '../stores.ts'
import { aSandbox, insertTeam, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const max = 100

export function aVolume(teamID: string, changes: Partial<Volume> = {}): Volume {
  const volumeID = newUUID()
  const rest = { state: 'creating', sizeMB: 64, createdAt: time } as const
  return { volumeID, teamID, name: `name-${volumeID}`, ...rest, ...changes }
}

async function insertReady(
  { volumes }: Stores,
  teamID: string,
  changes: Partial<Volume> = {},
): Promise<Volume> {
  const volume = aVolume(teamID, changes)
  assert.equal(await volumes.insert(volume, max), true)
  return (await volumes.markReady(volume.volumeID))!
}

function aSandboxWith(teamID: string, ...volumes: Volume[]) {
  const sandbox = aSandbox(teamID)
  const volumeMounts = volumes.map(({ volumeID, name }, at) => ({ volumeID, name, path: `/mnt/${at}` }))
  return { ...sandbox, options: { ...sandbox.options, volumeMounts } }
}

async function end({ sandboxes }: Stores, { sandboxID, runID }: { sandboxID: string; runID: string }) {
  await sandboxes.transition({ sandboxID, runID, from: ['creating'] }, 'killing')
  const changes = { endReason: 'killed', endedAt: time } as const
  await sandboxes.transition({ sandboxID, runID, from: ['killing'] }, 'ended', changes)
}

const refuses = (code: 'already_exists' | 'not_found') => (error: unknown) => isAppError(error, code)

export function volumeSuite(storeTest: StoreTest): void {
  storeTest('a volume is listed once it is ready, to its own team only', async (stores) => {
    const { volumes } = stores
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const volume = aVolume(teamID)
    assert.equal(await volumes.insert(volume, max), true)
    assert.deepEqual(await volumes.find(volume.volumeID), volume)
    assert.deepEqual([await volumes.list(teamID), await volumes.listAll()], [[], [volume]])
    const ready = { ...volume, state: 'ready' }
    assert.deepEqual(await volumes.markReady(volume.volumeID), ready)
    assert.equal(await volumes.markReady(volume.volumeID), undefined)
    assert.deepEqual([await volumes.list(teamID), await volumes.list(other.teamID)], [[ready], []])
    await volumes.remove(volume.volumeID)
    assert.deepEqual(await volumes.find(volume.volumeID), ready, 'a ready volume is not forgotten')
  })

  storeTest('a cancelled creation leaves a volume that is being deleted', async (stores) => {
    const { volumes } = stores
    const { teamID } = await insertTeam(stores)
    const volume = aVolume(teamID)
    await volumes.insert(volume, max)
    await volumes.remove(volume.volumeID)
    assert.deepEqual(
      await volumes.find(volume.volumeID),
      volume,
      'one that is being created is not forgotten',
    )
    const deleting = { ...volume, state: 'deleting' }
    assert.deepEqual(await volumes.cancelCreation(volume.volumeID), deleting)
    assert.equal(await volumes.cancelCreation(volume.volumeID), undefined)
    assert.equal(await volumes.markReady(volume.volumeID), undefined)
    await volumes.remove(volume.volumeID)
    await volumes.remove(volume.volumeID)
    assert.equal(await volumes.find(volume.volumeID), undefined)
    const { volumeID } = await insertReady(stores, teamID)
    assert.equal(await volumes.cancelCreation(volumeID), undefined)
  })

  storeTest('a name is taken once per team, also by a volume that is being deleted', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const { name, volumeID } = await insertReady(stores, teamID)
    assert.deepEqual(await stores.volumes.beginDeletion(volumeID), { begun: true })
    await assert.rejects(stores.volumes.insert(aVolume(teamID, { name }), max), refuses('already_exists'))
    assert.equal(await stores.volumes.insert(aVolume(other.teamID, { name }), max), true)
    await stores.volumes.remove(volumeID)
    assert.equal(await stores.volumes.insert(aVolume(teamID, { name }), max), true)
  })

  storeTest('parallel inserts do not exceed the limit of the team together', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const inserts = Array.from({ length: 20 }, () => stores.volumes.insert(aVolume(teamID), 7))
    assert.equal((await Promise.all(inserts)).filter((inserted) => inserted).length, 7)
    const orphan = stores.volumes.insert(aVolume(newUUID()), max)
    await assert.rejects(orphan, refuses('not_found'))
  })

  storeTest('a volume is not deleted while a sandbox that has not ended uses it', async (stores) => {
    const { teamID, limits } = await insertTeam(stores)
    const volume = await insertReady(stores, teamID)
    const users = [aSandboxWith(teamID, volume), aSandboxWith(teamID, volume, volume)]
    for (const user of users) await stores.sandboxes.insertWithinLimits(user, limits)
    assert.deepEqual((await stores.sandboxes.find(users[1]!.sandboxID))?.options, users[1]!.options)
    const usedBy = users.map(({ sandboxID }) => sandboxID).sort()
    assert.deepEqual(await stores.volumes.beginDeletion(volume.volumeID), { usedBy })
    assert.deepEqual(await stores.volumes.find(volume.volumeID), volume)
    for (const user of users) await end(stores, user)
    assert.deepEqual(await stores.volumes.beginDeletion(volume.volumeID), { begun: true })
    assert.equal(await stores.volumes.beginDeletion(volume.volumeID), undefined)
    await stores.volumes.remove(volume.volumeID)
    assert.deepEqual(await stores.volumes.listAll(), [])
  })

  storeTest('no sandbox is created with a volume that is gone or of another team', async (stores) => {
    const { teamID, limits } = await insertTeam(stores)
    const other = await insertTeam(stores)
    const volume = await insertReady(stores, teamID)
    const foreign = stores.sandboxes.insertWithinLimits(aSandboxWith(other.teamID, volume), limits)
    await assert.rejects(foreign, refuses('not_found'))
    await stores.volumes.beginDeletion(volume.volumeID)
    const late = aSandboxWith(teamID, volume)
    await assert.rejects(stores.sandboxes.insertWithinLimits(late, limits), refuses('not_found'))
    assert.equal(await stores.sandboxes.find(late.sandboxID), undefined)
  })

  storeTest(
    'of a deletion and creates at once, either the deletion or the creates succeed',
    async (stores) => {
      const { teamID, limits } = await insertTeam(stores)
      const volume = await insertReady(stores, teamID)
      const creates = Array.from({ length: 8 }, () =>
        stores.sandboxes.insertWithinLimits(aSandboxWith(teamID, volume), limits),
      )
      const [deletion, ...created] = await Promise.allSettled([
        stores.volumes.beginDeletion(volume.volumeID),
        ...creates,
      ])
      const inserted = created.filter(({ status }) => status === 'fulfilled').length
      const begun =
        deletion.status === 'fulfilled' && deletion.value !== undefined && 'begun' in deletion.value
      assert.equal(begun, inserted === 0)
    },
  )

  storeTest('a team with a volume is not deleted', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const { volumeID } = await insertReady(stores, teamID)
    assert.deepEqual(await stores.teams.deleteUnused(teamID), { sandboxes: 0, templates: 0, volumes: 1 })
    await stores.volumes.beginDeletion(volumeID)
    await stores.volumes.remove(volumeID)
    assert.deepEqual(await stores.teams.deleteUnused(teamID), { deleted: true })
  })
}
