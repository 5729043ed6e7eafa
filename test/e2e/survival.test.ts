/** What pauses, resumes, forks, snapshots and kills leave when Warren or the machine goes down in the middle. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { countOf } from '../support/count-of.ts'
import { loseMachine } from '../support/leftovers.ts'
import { createMarked, type Marked, markInFile, markInMemory } from '../support/marked-sandbox.ts'
import { settledTraces } from '../support/traces.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

/** Each crash hits two sandboxes in every verb, at moments of their own. */
const crashes = countOf({ short: 2, long: 25 })
const longestMs = { container: 250, gvisor: 700 }

const post = (warren: Warren, sandboxID: string, verb: string, body: object = {}) =>
  warren.api(`/sandboxes/${sandboxID}/${verb}`, { method: 'POST', body })

const stateOf = async (warren: Warren, { sandboxID }: Marked) => {
  const answer = await warren.api(`/sandboxes/${sandboxID}`)
  return answer.status === 200 ? ((await answer.json()) as { state: string }).state : answer.status
}

for (const isolation of isolations) {
  describe(`survival, ${isolation}`, () => {
    let warren: Warren
    afterEach(() => warren?.stop())

    it(`of ${crashes * 2} crashes in the middle of each verb`, async () => {
      const settings = noWarmPool
      warren = await startWarren(isolation, { settings })
      // The first sandbox makes what stays for the next.
      await Sandbox.kill((await createMarked(warren, 'first')).sandboxID, warren.client)
      const empty = await settledTraces(warren.dataFolder)
      const fleet: Marked[] = []
      let made = 0
      const more = async (count: number) => {
        while (fleet.length < count) fleet.push(await createMarked(warren, `mark ${made++}`))
      }
      for (let crash = 0; crash < crashes; crash++) {
        await more(10)
        const roles = ['pause', 'resume', 'fork', 'snapshots', 'kill'] as const
        const work = fleet.map((marked, at) => ({ marked, role: roles[at % roles.length]! }))
        for (const { marked, role } of work) {
          if (role === 'resume') assert.equal((await post(warren, marked.sandboxID, 'pause')).status, 204)
        }
        const begun = work.map(async ({ marked, role }) => {
          await delay(Math.random() * longestMs[isolation])
          if (role === 'kill') await warren.api(`/sandboxes/${marked.sandboxID}`, { method: 'DELETE' })
          else await post(warren, marked.sandboxID, role, role === 'resume' ? { timeout: 3600 } : {})
        })
        const settled = Promise.allSettled(begun)
        await delay(Math.random() * longestMs[isolation] * 1.5)
        await warren.crash()
        await settled
        warren = await startWarren(isolation, { keepData: true, settings })
        for (const { marked, role } of work) {
          const state = await stateOf(warren, marked)
          if (role === 'kill' && state === 404) {
            fleet.splice(fleet.indexOf(marked), 1)
            continue
          }
          assert.ok(state === 'running' || state === 'paused', `${role} left it ${state}`)
          assert.equal(await markInFile(warren, marked), marked.mark, role)
          const inMemory = await markInMemory(warren, marked)
          // A resume that was cut off after the sandbox had run gives its files back, and says so.
          if (role !== 'resume' || isolation === 'container') assert.equal(inMemory, marked.mark, role)
          else if (inMemory === undefined) assert.match(await logOf(warren, marked), /memory .* is lost/)
          if (inMemory === undefined) {
            await Sandbox.kill(marked.sandboxID, warren.client)
            fleet.splice(fleet.indexOf(marked), 1)
          }
        }
        await dropForks(warren, fleet)
      }
      for (const { sandboxID } of fleet) await Sandbox.kill(sandboxID, warren.client)
      await dropSnapshots(warren)
      await dropQuarantine(warren)
      assert.deepEqual(readdirSync(join(warren.dataFolder, 'saved')), [])
      assert.deepEqual(await settledTraces(warren.dataFolder), empty)
    })

    it('of paused sandboxes over a reboot of the machine', async () => {
      warren = await startWarren(isolation, { settings: noWarmPool })
      const [full, files] = [await createMarked(warren, 'full'), await createMarked(warren, 'files')]
      await post(warren, full.sandboxID, 'pause')
      await post(warren, files.sandboxID, 'pause', { memory: false })
      const lost = await createMarked(warren, 'lost')
      await warren.crash()
      await loseMachine(warren.dataFolder)
      warren = await startWarren(isolation, { keepData: true, settings: noWarmPool })
      assert.equal(await stateOf(warren, lost), 404)
      const detail = await (await warren.api(`/sandboxes/${full.sandboxID}`)).json()
      const survives = isolation === 'gvisor'
      assert.equal((detail as { pauseMode: string }).pauseMode, survives ? 'full' : 'filesystem')
      for (const marked of [full, files]) assert.equal(await markInFile(warren, marked), marked.mark)
      assert.equal(await markInMemory(warren, full), survives ? 'full' : undefined)
      assert.equal(await markInMemory(warren, files), undefined)
      for (const { sandboxID } of [full, files]) await Sandbox.kill(sandboxID, warren.client)
    })
  })
}

async function logOf(warren: Warren, { sandboxID }: Marked): Promise<string> {
  return (await warren.api(`/v2/sandboxes/${sandboxID}/logs?limit=1000`)).text()
}

/** A fork whose caller was cut off is a whole sandbox, or none. */
async function dropForks(warren: Warren, fleet: Marked[]): Promise<void> {
  const known = new Set(fleet.map(({ sandboxID }) => sandboxID))
  const listed = await Sandbox.list(warren.client).nextItems()
  for (const { sandboxId, metadata } of listed.filter((one) => !known.has(one.sandboxId))) {
    const fork = { sandboxID: sandboxId, mark: metadata.mark! }
    assert.equal(await markInFile(warren, fork), fork.mark)
    if (warren.isolation === 'gvisor') assert.equal(await markInMemory(warren, fork), fork.mark)
    await Sandbox.kill(sandboxId, warren.client)
  }
}

/** Only a snapshot that was whole when its request was cut off, before any template named it, may be there. */
async function dropQuarantine(warren: Warren): Promise<void> {
  const asOperator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
  const entries = await (await warren.api('/admin/quarantine', asOperator)).json()
  for (const { snapshotName } of entries as { snapshotName: string }[]) {
    assert.match(snapshotName, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    const removed = await warren.api(`/admin/quarantine/${snapshotName}`, { ...asOperator, method: 'DELETE' })
    assert.equal(removed.status, 204)
  }
}

async function dropSnapshots(warren: Warren): Promise<void> {
  const paginator = Sandbox.listSnapshots(warren.client)
  while (paginator.hasNext) {
    for (const { snapshotId } of await paginator.nextItems()) {
      assert.equal(await Sandbox.deleteSnapshot(snapshotId, warren.client), true)
    }
  }
}
