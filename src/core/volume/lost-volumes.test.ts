import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { addTeam, type Fixture, failsWith, openFixture, turning } from '../../../test/support/domain.ts'
import { failCalls } from '../../../test/support/store-faults.ts'
import { soleNode } from '../../store/node/owners.ts'
import { aNode } from '../../store/suite/nodes.ts'
import type { Volume } from './volume.ts'

/** Forgets this node while it has the volume, as another node does on the word of the operator. */
async function loseVolume({ volumes, team, stores }: Fixture, name = 'data'): Promise<Volume> {
  const volume = await volumes.create(team, name)
  const node = aNode(soleNode)
  await stores.nodes.join(node)
  await stores.nodes.leave(node)
  await stores.nodes.forget(soleNode, 1, 0)
  return volume
}

const warnings = ({ logged }: Fixture) =>
  logged.flatMap(({ level, message }) =>
    level === 'warn' && /disk of a volume/.test(message) ? [message] : [],
  )

describe('a volume of a forgotten node', () => {
  it('keeps its disk when the node is back, and the log names the command that recovers it', async () => {
    await using fixture = await openFixture()
    const { volumes, team, volumeDisks } = fixture
    const { volumeID } = await loseVolume(fixture)
    await assert.rejects(volumes.get(team, volumeID), failsWith('not_found'))
    for (let round = 0; round < 3; round++) await volumes.reconcile()
    assert.deepEqual([...volumeDisks.disks], [volumeID])
    const [warning, ...others] = warnings(fixture)
    assert.ok(warning?.includes(`warren volume recover ${volumeID}`), warning)
    assert.deepEqual(others, [])
    assert.notEqual((await volumes.listLost())[0]?.foundAt, null)
  })

  it('is recovered with its id, its name and its team', async () => {
    await using fixture = await openFixture()
    const { volumes, team } = fixture
    const volume = await loseVolume(fixture)
    await volumes.reconcile()
    assert.deepEqual(await volumes.recover(volume.volumeID), volume)
    assert.deepEqual([await volumes.list(team), await volumes.listLost()], [[volume], []])
    const [mount] = await volumes.resolve(team, [{ name: 'data', path: '/mnt/data' }])
    assert.equal(mount?.volumeID, volume.volumeID)
    assert.deepEqual(await volumes.recover(volume.volumeID), volume, 'the answer of the first call was lost')
  })

  it('gets a new name if its team has another volume with its name by now', async () => {
    await using fixture = await openFixture()
    const { volumes, team } = fixture
    const { volumeID } = await loseVolume(fixture)
    const other = await addTeam(fixture, 'other')
    await volumes.create(other, 'data')
    await volumes.create(team, 'data')
    await assert.rejects(volumes.recover(volumeID), {
      code: 'conflict',
      message: new RegExp(`warren volume recover ${volumeID} --name NAME`),
    })
    await assert.rejects(volumes.recover(volumeID, 'not a name'), failsWith('invalid_argument'))
    assert.equal((await volumes.recover(volumeID, 'data-2')).name, 'data-2')
    assert.equal((await volumes.list(team)).length, 2)
  })

  it('is not recovered while its disk is away, and its entry stays', async () => {
    await using fixture = await openFixture()
    const { volumes, volumeDisks } = fixture
    const { volumeID } = await loseVolume(fixture)
    await volumes.reconcile()
    volumeDisks.disks.clear()
    await assert.rejects(volumes.recover(volumeID), { code: 'unavailable', message: /node sole had it/ })
    await volumes.reconcile()
    assert.deepEqual(
      (await volumes.listLost()).map(({ foundAt }) => foundAt),
      [null],
    )
    await assert.rejects(volumes.recover('unknown'), failsWith('not_found'))
  })

  it('is recovered once, although the answer is lost', async () => {
    await using fixture = await openFixture()
    const { volumes, storeFaults, clock, team } = fixture
    const volume = await loseVolume(fixture)
    storeFaults.lostVolumes.after = failCalls('recover', 1)
    assert.deepEqual(await turning(clock, volumes.recover(volume.volumeID)), volume)
    assert.deepEqual(await volumes.list(team), [volume])
  })
})
