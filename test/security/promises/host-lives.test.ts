/** After many random lives, with kills of Warren among them, the machine is as it was before the first. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { delay } from '../../../src/lib/clock.ts'
import { countOf } from '../../support/count-of.ts'
import { eventually } from '../../support/eventually.ts'
import { type Random, seeded } from '../../support/fuzz.ts'
import { countHostTraces, type HostTraces } from '../../support/host-traces.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../../support/warren.ts'

const lives = countOf({ short: 6, long: 1000 })
const livesBetweenKills = countOf({ short: 6, long: 40 })
const atOnce = 4
/** `WARREN_TEST_SEED` repeats a run. */
const seed = Number(process.env.WARREN_TEST_SEED ?? Date.now() % 2 ** 31)

/** What a life does; each begins with a create and ends with a kill or with the end of its time. */
const deeds: Record<string, (sandbox: Sandbox, warren: Warren, random: Random) => Promise<unknown>> = {
  run: (sandbox) => sandbox.commands.run('for i in 1 2 3 4 5; do setsid sleep 600 & done; echo ok'),
  write: (sandbox, _, random) =>
    sandbox.files.write(`/home/user/${random.below(1000)}/file`, 'x'.repeat(100_000)),
  mount: (sandbox) =>
    sandbox.commands.run('mkdir -p /mnt/a; mount -t tmpfs none /mnt/a; echo x > /mnt/a/x; true', {
      user: 'root',
    }),
  watch: (sandbox) => sandbox.files.watchDir('/home/user', () => {}),
  serve: async (sandbox, { url }) => {
    await sandbox.commands.run('python3 -m http.server 8000', { background: true, timeoutMs: 0 })
    const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '8000' }
    await Promise.all(
      Array.from({ length: 20 }, () => fetch(url, { headers }).then((answer) => answer.text())),
    )
  },
  keys: (sandbox) => sandbox.commands.run('keyctl new_session 2>/dev/null; ipcmk -M 4096; ipcmk -Q; true'),
  network: (sandbox, { api }, random) =>
    done(
      api(`/sandboxes/${sandbox.sandboxId}/network`, {
        method: 'PUT',
        body: { denyOut: [`198.51.${random.below(100)}.0/24`] },
      }),
    ),
  fork: (sandbox, { api }) => done(api(`/sandboxes/${sandbox.sandboxId}/fork`, { body: { count: 2 } })),
  snapshot: (sandbox, { api }, random) =>
    done(api(`/sandboxes/${sandbox.sandboxId}/snapshots`, { body: { name: `s${random.below(1_000_000)}` } })),
  pause: async (sandbox, { client }) => {
    await sandbox.pause()
    await Sandbox.connect(sandbox.sandboxId, client)
  },
}

for (const isolation of isolations) {
  describe(`the machine, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await startWarren(isolation, { settings: noWarmPool })
    })
    after(() => warren?.stop())

    it(`is as it was after ${lives} random lives and kills of Warren`, { timeout: 7_200_000 }, async (t) => {
      t.diagnostic(`seed ${seed}`)
      const random = seeded(seed)
      await liveOnce(warren, random, Object.keys(deeds))
      await removeAll(warren)
      const clean = await settled(warren)
      for (let left = lives; left > 0; left -= livesBetweenKills) {
        const plans = Array.from({ length: Math.min(left, livesBetweenKills) }, () => planOf(random))
        const killAfter = random.below(plans.length)
        let ended = 0
        const killed = Promise.withResolvers<void>()
        const worker = async () => {
          for (let plan = plans.shift(); plan; plan = plans.shift()) {
            // Requests that a killed Warren had under way fail.
            await liveOnce(warren, random, plan).catch(() => {})
            if (ended++ === killAfter) killed.resolve()
          }
        }
        const workers = Array.from({ length: atOnce }, worker)
        await killed.promise
        await delay(random.below(300))
        await warren.crash()
        warren = await startWarren(isolation, { settings: noWarmPool, keepData: true })
        await Promise.all(workers)
        await removeAll(warren)
      }
      await eventually(async () => {
        await removeQuarantined(warren)
        assert.deepEqual(countHostTraces(warren), clean, `seed ${seed}`)
      })
    })
  })
}

function planOf(random: Random): string[] {
  return Array.from({ length: 1 + random.below(4) }, () => random.pick(Object.keys(deeds)))
}

async function liveOnce(warren: Warren, random: Random, plan: readonly string[]): Promise<void> {
  const diesByItself = random.chance(0.2)
  const timeoutMs = diesByItself ? 15_000 : 600_000
  const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs, requestTimeoutMs: 60_000 })
  for (const name of plan) await deeds[name]!(sandbox, warren, random)
  if (!diesByItself) await sandbox.kill()
}

async function done(answer: Promise<Response>): Promise<void> {
  const { ok, status } = await answer
  if (!ok) throw new Error(`${status}`)
}

/** Sandboxes that forks and kills of Warren left, and all snapshots. */
async function removeAll(warren: Warren): Promise<void> {
  await eventually(async () => {
    const sandboxes = await listed(warren, '/v2/sandboxes?state=running,paused&limit=100')
    const templates = await listed(warren, '/snapshots?limit=100')
    await Promise.all([
      ...sandboxes.map(({ sandboxID }) => warren.api(`/sandboxes/${sandboxID}`, { method: 'DELETE' })),
      ...templates.map(({ snapshotID }) =>
        warren.api(`/templates/${encodeURIComponent(snapshotID!.split(':')[0]!)}`, { method: 'DELETE' }),
      ),
    ])
    assert.equal(sandboxes.length + templates.length, 0)
  })
}

/** A snapshot that was being taken when Warren was killed is kept for days, since somebody may want it. */
async function removeQuarantined(warren: Warren): Promise<void> {
  const operator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
  const answer = await warren.api('/admin/quarantine', operator)
  assert.equal(answer.status, 200)
  for (const { snapshotName } of (await answer.json()) as { snapshotName: string }[])
    await warren.api(`/admin/quarantine/${snapshotName}`, { ...operator, method: 'DELETE' })
}

async function listed(warren: Warren, path: string): Promise<Record<string, string>[]> {
  const answer = await warren.api(path)
  assert.equal(answer.status, 200, await answer.clone().text())
  return (await answer.json()) as Record<string, string>[]
}

/** The pool of slots is full again, and nothing changes any more. */
async function settled(warren: Warren): Promise<HostTraces> {
  let before = countHostTraces(warren)
  for (let same = 0; same < 5; ) {
    await delay(400)
    const now = countHostTraces(warren)
    same = JSON.stringify(now) === JSON.stringify(before) ? same + 1 : 0
    before = now
  }
  return before
}
