/** Histories of the core: the same ones in every run, and in the long run many that nobody has seen before. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { suite, test } from 'node:test'
import { countOf } from '../support/count-of.ts'
import { commitSeed } from './commit-seed.ts'
import { runHistory } from './history.ts'
import { drawnProfiles } from './plan.ts'
import { isOfCluster, planHistory } from './plan-history.ts'
import { openDatabase } from './search.ts'
import { nodeOptions } from './workers.ts'

const script = join(import.meta.dirname, 'simulate.ts')
const knownHistories = countOf({ short: 900, long: 2000 })
/** Histories of three nodes that share a database and an object store; each takes as long as three of a single machine. */
const clusterHistories = countOf({ short: 100, long: 1500 })
/** Those that the commit chooses. */
const commitHistories = 300
const commitClusterHistories = 60
const newHistories = countOf({ short: 0, long: 20_000 })

suite('the simulation of the core', () => {
  test('a seed takes the same course each time', async () => {
    const database = await openDatabase()
    const inProfiles = drawnProfiles.map(
      (profile) => [5, { profile, ...(isOfCluster(profile) && { nodes: 3 }) }] as const,
    )
    for (const [seed, options] of [[1], [2], [3], [4, { nodes: 3 }], ...inProfiles] as const) {
      const [first, second] = [
        await runHistory(database, planHistory(seed, options), { trace: true }),
        await runHistory(database, planHistory(seed, options), { trace: true }),
      ]
      assert.ok(first.trace.length > 20)
      assert.deepEqual(first.trace, second.trace)
    }
  })

  test('the seeds of every run choose every profile, and ordinary histories most often', () => {
    const chosen = [
      ...Array.from({ length: knownHistories }, (_, at) => planHistory(at + 1).profile),
      ...Array.from({ length: clusterHistories }, (_, at) => planHistory(at + 1, { nodes: 3 }).profile),
    ]
    for (const profile of drawnProfiles)
      assert.ok(chosen.filter((one) => one === profile).length >= 3, profile)
    assert.ok(chosen.filter((one) => one === undefined).length > 500)
  })

  // In parts, so that a slow machine is seen to go on.
  for (let first = 1; first <= knownHistories; first += 300) {
    test(`nothing is lost, cut short, exceeded or left over in the histories of every run, from seed ${first} on`, () =>
      keepsEveryRule(first, Math.min(300, knownHistories - first + 1)))
  }

  test('nothing is lost where three nodes are cut off, counted as absent, drained, forgotten, and come back', () =>
    keepsEveryRule(1, clusterHistories, ['--nodes', '3']))

  test('nothing is lost in the histories that this commit chooses', async (t) => {
    const { first, from } = commitSeed()
    const counts = `${commitHistories} of one machine and ${commitClusterHistories} of three nodes`
    t.diagnostic(`${counts} from seed ${first} on, which ${from} chooses`)
    await keepsEveryRule(first, commitHistories)
    await keepsEveryRule(first, commitClusterHistories, ['--nodes', '3'])
  })

  // Not in every run: a change must not fail because of a fault that somebody else has made.
  if (newHistories > 0) {
    test('nothing is lost in histories that nobody has seen before', async (t) => {
      const first = Math.floor(Math.random() * 2 ** 30)
      t.diagnostic(`${newHistories} histories from seed ${first} on, some of three nodes`)
      await keepsEveryRule(first, newHistories)
      await keepsEveryRule(first, newHistories / 5, ['--nodes', '3'])
    })
  }
})

/** In two processes side by side: together they take thousands of histories within a minute of a quiet machine. */
async function keepsEveryRule(first: number, count: number, options: string[] = []): Promise<void> {
  const half = Math.ceil(count / 2)
  await Promise.all([run(first, half, options), run(first + half, count - half, options)])
}

/** In a process of its own, where node:test does not watch every promise: that takes a third longer. */
async function run(first: number, count: number, options: string[]): Promise<void> {
  const words = [...nodeOptions, script, '--from', String(first), '--histories', String(count), ...options]
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [said, [code]] = await Promise.all([text(child.stdout), once(child, 'close')])
  assert.equal(code, 0, said)
  assert.match(said, new RegExp(`^${count} histories from seed ${first} on`))
}
