/** Two machines, the second with a copy of the first one's data folder: one of them has the node, and the other one ends. */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { type ClusterMember, startCluster, type TestCluster } from '../support/cluster.ts'
import { eventually } from '../support/eventually.ts'
import { anyIsolation, type Warren } from '../support/warren.ts'

let cluster: TestCluster
const member = (index: number): ClusterMember => cluster.members[index]!
const door = (index: number): Warren => member(index).warren

before(async () => {
  cluster = await startCluster(anyIsolation, { count: 2 })
})
after(() => cluster?.stop())

const rowOfFirst = async () =>
  (await cluster.read('select run_id, address from nodes where id = $1', [member(0).nodeID]))[0] as {
    run_id: string
    address: string
  }

suite('a data folder on two machines', () => {
  test('a node that was killed has the same place after its restart, so it need not wait', async () => {
    const before = await rowOfFirst()
    await member(0).restart('crash')
    const { run_id } = await rowOfFirst()
    assert.notEqual(run_id, before.run_id)
    assert.equal(run_id.split('.')[0], before.run_id.split('.')[0])
  })

  test('a copy does not start while the other one lives, and says where that is', async () => {
    await door(1).stop()
    copyFileSync(join(door(0).dataFolder, 'node.json'), join(door(1).dataFolder, 'node.json'))
    await assert.rejects(
      member(1).startWith({}),
      new RegExp(
        `Another running Warren, at ${member(0).machine.address}:7443, has the node ID ${member(0).nodeID}\\.`,
      ),
    )
    assert.equal((await door(0).api('/v2/sandboxes')).status, 200)
  })

  test('a Warren ends when a copy took its node while it was silent', async () => {
    const { pid, logFile } = door(0)
    process.kill(pid, 'SIGSTOP')
    try {
      await member(1).startWith({})
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await eventually(() => assert.ok(!existsSync(`/proc/${pid}`)))
    assert.equal(await door(0).stop(), 78)
    const address = `${member(1).machine.address}:7443`
    assert.equal((await rowOfFirst()).address, address)
    assert.match(
      readFileSync(logFile, 'utf8'),
      new RegExp(`Another Warren, at ${address}, has taken the node ID`),
    )
    assert.equal((await door(1).api('/v2/sandboxes')).status, 200)
  })
})
