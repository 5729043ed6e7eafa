/**
 * Sandboxes, each within its own limit, take more memory than the server may give to all of them. Nobody else may be hurt by
 * it. These Warrens may use only a small part of the machine.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, afterEach, before, describe, it } from 'node:test'
import { type CommandHandle, Sandbox } from 'e2b'
import { openCgroups } from '../../src/drivers/host/process/cgroups.ts'
import { instanceOf } from '../../src/drivers/host/record/layout.ts'
import { eventually } from '../support/eventually.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const name = 'used-up-memory'
/** Below 512 MiB of available memory nothing starts; below 256 MiB sandboxes that grow are frozen. */
const settings = {
  ...noWarmPool,
  WARREN_MEMORY_MB: '1536',
  WARREN_MIN_FREE_MEMORY_MB: '512',
  WARREN_START_WAIT_SECONDS: '1',
}
const forever = { timeoutMs: 3_600_000 }
const background = { background: true, timeoutMs: 0 } as const

/** Takes memory and keeps it; tells how much by the length of a file. */
const grow = (megabytes: number, pauseSeconds: number) =>
  `python3 -u -c "
import time
kept = []
while True:
    kept.append(bytearray(b'x') * (${megabytes} << 20))
    open('/tmp/taken', 'a').write('x')
    time.sleep(${pauseSeconds})
"`

/** Takes `first` megabytes at once and then one after another; tells how many by the length of a file. */
const takeSlowly = ({ first, more }: { first: number; more: number }) =>
  `python3 -u -c "
import time
kept = [bytearray(b'x') * (${first} << 20)]
open('/tmp/taken', 'a').write('x')
for number in range(${more}):
    time.sleep(0.2)
    kept.append(bytearray(b'x') * (1 << 20))
    open('/tmp/taken', 'a').write('x')
time.sleep(3600)
"`

for (const isolation of isolations) {
  describe(`memory that is used up, ${isolation}`, () => {
    let warren: Warren
    let neighbour: Warren['client']
    let bystander: Sandbox
    let ticking: CommandHandle

    before(async () => {
      warren = await startWarren(isolation, { name, settings })
      const operator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
      await warren.api('/admin/teams', { ...operator, body: { name: 'neighbour' } })
      const made = await warren.api('/admin/teams/neighbour/api-keys', { ...operator, body: { name: 'k' } })
      neighbour = { ...warren.client, apiKey: ((await made.json()) as { key: string }).key }
      bystander = await Sandbox.create('base', { ...neighbour, ...forever })
      // Larger than any single process of those that take memory in many small ones.
      ticking = await bystander.commands.run(
        `python3 -u -c "
import time
kept = bytearray(b'x') * (60 << 20)
while True:
    open('/tmp/ticks', 'a').write('x')
    time.sleep(0.1)
"`,
        background,
      )
    })
    after(async () => {
      for (const client of warren ? [warren.client, neighbour] : []) await killAll(client)
      await warren?.stop()
    })
    afterEach(() => killAll(warren.client))

    const killAll = async (client: Warren['client']) => {
      for (const { sandboxId } of await Sandbox.list(client).nextItems())
        await Sandbox.kill(sandboxId, client)
    }
    const createHog = () => eventuallyCreated(() => Sandbox.create('base', { ...warren.client, ...forever }))
    /** Memory of those before may take a moment to come back. */
    const eventuallyCreated = async (create: () => Promise<Sandbox>) => {
      let sandbox: Sandbox | undefined
      await eventually(async () => {
        sandbox = await create()
      })
      return sandbox!
    }
    const stateOf = async ({ sandboxId }: Sandbox) => {
      const answer = await warren.api(`/sandboxes/${sandboxId}`)
      return answer.ok ? ((await answer.json()) as { state: string }).state : 'ended'
    }
    const askAgent = (sandbox: Sandbox) =>
      warren.api('/health', {
        headers: { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983' },
        key: null,
        // A request that was forwarded just before the freeze waits until the sandbox continues.
        signal: AbortSignal.timeout(5000),
      })
    const isFrozen = async (sandbox: Sandbox) => (await askAgent(sandbox)).status === 507
    const untilOneIsFrozen = async (hogs: readonly Sandbox[]): Promise<Sandbox> => {
      let frozen: Sandbox | undefined
      await eventually(async () => {
        for (const hog of hogs) if (await isFrozen(hog)) frozen = hog
        assert.ok(frozen)
      })
      return frozen!
    }
    const memoryKills = ({ sandboxId }: Sandbox) =>
      openCgroups().memoryKills(`/warren-${instanceOf(warren.dataFolder)}/${sandboxId}`)
    /** What another team has and does while memory is used up. */
    const assertUnhurt = async () => {
      const listed = await Sandbox.list(neighbour).nextItems()
      assert.ok(listed.some(({ sandboxId }) => sandboxId === bystander.sandboxId))
      await bystander.setTimeout(forever.timeoutMs)
      const count = async () => Number((await bystander.commands.run('stat -c %s /tmp/ticks')).stdout)
      const before = await count()
      await eventually(async () => assert.ok((await count()) > before))
      const { stdout } = await bystander.commands.run(`kill -0 ${ticking.pid} && echo alive`)
      assert.equal(stdout, 'alive\n')
      assert.equal(await memoryKills(bystander), 0)
    }
    const untilCreated = async () => {
      const sandbox = await eventuallyCreated(() => Sandbox.create('base', neighbour))
      assert.equal((await sandbox.commands.run('echo well')).stdout, 'well\n')
      await sandbox.kill()
    }
    const logsOf = async ({ sandboxId }: Sandbox) =>
      (await warren.api(`/v2/sandboxes/${sandboxId}/logs`)).text()

    it('sandboxes that grow without end are frozen before the kernel kills one, and all others keep running', async () => {
      const hogs = [await createHog(), await createHog()]
      for (const hog of hogs) await hog.commands.run(grow(8, 0.1), background)
      const frozen = await untilOneIsFrozen(hogs)
      // The log is written in the background.
      const reason = /is frozen because the memory of this server is nearly used up/
      await eventually(async () => assert.match(await logsOf(frozen), reason))
      const refused = await warren.api('/sandboxes', { body: { templateID: 'base' } })
      assert.equal(refused.status, 503, await refused.text())
      await assertUnhurt()
      for (const hog of hogs) assert.equal(await memoryKills(hog), 0)
      const operator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
      const figures = await (await warren.api('/metrics', operator)).text()
      assert.match(figures, /^warren_memory_guard_acts\{act="freeze"\} [1-9]/m)
      assert.match(readFileSync(warren.logFile, 'utf8'), /a sandbox that grows is frozen/)
      const gone = await warren.api(`/sandboxes/${frozen!.sandboxId}`, { method: 'DELETE' })
      assert.equal(gone.status, 204)
      await killAll(warren.client)
      await untilCreated()
    })

    it('frozen sandboxes lose nothing', async () => {
      const [hog, other] = [await createHog(), await createHog()]
      await other.commands.run(
        `python3 -u -c "
import time
kept = bytearray(b'x') * (480 << 20)
open('/tmp/taken', 'w').write('x')
time.sleep(3600)
"`,
        background,
      )
      await eventually(async () => void (await other.files.read('/tmp/taken')))
      const script = `python3 -u -c "
kept = []
import time
for number in range(90):
    kept.append(bytes([number]) * (8 << 20))
    time.sleep(0.05)
same = all(one == bytes([number]) * (8 << 20) for number, one in enumerate(kept))
open('/tmp/done', 'w').write(str(same))
time.sleep(3600)
"`
      await hog.commands.run(script, background)
      await eventually(async () => {
        const isPaused = (await stateOf(hog)) === 'paused'
        assert.ok(isPaused || (await isFrozen(hog)))
      })
      if (isolation === 'gvisor') {
        await eventually(async () => assert.equal(await stateOf(hog), 'paused'))
        // The wire tells a pause that is under way as paused already; the log tells it when it is done.
        const pausedForMemory = /was paused because the memory of this server is nearly used up/
        await eventually(async () => assert.match(await logsOf(hog), pausedForMemory))
      }
      await other.kill()
      await eventually(async () => {
        if ((await stateOf(hog)) === 'paused') await Sandbox.connect(hog.sandboxId, warren.client)
        assert.equal(await hog.files.read('/tmp/done'), 'True')
      })
      await assertUnhurt()
    })

    it('a team below its share pays for nothing that another team takes, and still creates sandboxes', async () => {
      // Each hog keeps far below what it was promised, and the neighbour takes more than theirs, but less than half of all.
      const victim = await eventuallyCreated(() => Sandbox.create('base', { ...neighbour, ...forever }))
      await victim.commands.run(takeSlowly({ first: 270, more: 60 }), background)
      await eventually(async () => void (await victim.files.read('/tmp/taken')))
      const hogs: Sandbox[] = []
      for (let count = 0; count < 4; count++) hogs.push(await createHog())
      for (const hog of hogs)
        await hog.commands.run(takeSlowly({ first: 180, more: 200 }), background).catch(() => {})
      await eventually(async () => {
        const touched = []
        for (const hog of hogs) touched.push((await stateOf(hog)) !== 'running' || (await isFrozen(hog)))
        assert.equal((await victim.commands.run('echo here')).stdout, 'here\n')
        assert.ok(touched.includes(true))
      })
      await untilCreated()
      await eventually(async () => assert.equal((await victim.files.read('/tmp/taken')).length, 61))
      assert.equal((await victim.commands.run('echo here')).stdout, 'here\n')
      const log = readFileSync(warren.logFile, 'utf8').split('\n')
      assert.ok(!log.some((line) => line.includes(victim.sandboxId) && line.includes('nearly used up')))
      assert.equal(await memoryKills(victim), 0)
      await victim.kill()
      await assertUnhurt()
    })

    it('many small processes at full speed do not harm other sandboxes', async () => {
      const hogs = [await createHog(), await createHog(), await createHog()]
      for (const hog of hogs) {
        await hog.commands
          .run(`for i in $(seq 40); do ${grow(5, 0)} & sleep 0.01; done; wait`, background)
          .catch(() => {})
      }
      // Each sandbox is frozen, paused, ended, or has lost processes.
      await eventually(async () => {
        for (const hog of hogs) {
          const isOver = (await stateOf(hog)) !== 'running' || (await isFrozen(hog))
          assert.ok(isOver || (await memoryKills(hog)) > 0)
        }
      })
      await assertUnhurt()
      await killAll(warren.client)
      await untilCreated()
    })

    it('a Warren that is killed meanwhile thaws no sandbox after its restart, and kills those it is asked to', async () => {
      const hogs = [await createHog(), await createHog()]
      for (const hog of hogs) await hog.commands.run(grow(8, 0.1), background)
      const frozen = await untilOneIsFrozen(hogs)
      await warren.crash()
      warren = await startWarren(isolation, { name, settings, keepData: true })
      await eventually(async () => {
        const isPaused = (await stateOf(frozen)) === 'paused'
        assert.ok(isPaused || (await isFrozen(frozen)))
      })
      await assertUnhurt()
      for (const hog of hogs) assert.ok([204, 404].includes((await kill(hog)).status))
      await untilCreated()
    })

    const kill = ({ sandboxId }: Sandbox) => warren.api(`/sandboxes/${sandboxId}`, { method: 'DELETE' })
  })
}
