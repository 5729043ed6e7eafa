/** Three Warrens over one PostgreSQL behave as one: any of them answers for all. */
import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { Sandbox } from 'e2b'
import { startCluster, type TestCluster } from '../support/cluster.ts'
import { anyIsolation, type startWarren } from '../support/warren.ts'

type Door = Awaited<ReturnType<typeof startWarren>>

let cluster: TestCluster
const door = (index: number): Door => cluster.members[index]!.warren

before(async () => {
  cluster = await startCluster(anyIsolation)
})
after(() => cluster?.stop())

suite('three Warrens as three machines', () => {
  test('sandboxes spread, and each door lists and reaches all of them', async () => {
    const made = await Promise.all(Array.from({ length: 9 }, () => Sandbox.create(door(0).client)))
    const listed = (await (await door(1).api('/v2/sandboxes')).json()) as { sandboxID: string }[]
    assert.equal(listed.length, made.length)
    for (const sandbox of made.slice(0, 3)) {
      for (const index of [0, 1, 2]) {
        const same = await Sandbox.connect(sandbox.sandboxId, door(index).client)
        assert.equal((await same.commands.run(`echo from ${index}`)).stdout, `from ${index}\n`)
      }
    }
    await Promise.all(made.map((sandbox, index) => Sandbox.kill(sandbox.sandboxId, door(index % 3).client)))
  })
})
