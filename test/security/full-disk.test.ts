/**
 * One sandbox, within its own limit, writes more than the disk of the server has. Nobody else may be hurt by it: the data
 * folder of these Warrens is a small file system.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, afterEach, before, describe, it } from 'node:test'
import { Sandbox, Volume } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { mountSmallDisk, type SmallDisk } from '../support/small-disk.ts'
import { dataFolderOf, isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const name = 'full-disk'
/** The reserve is a sixteenth of the disk, 128 MiB: below 512 MiB nothing starts, and below 256 MiB writers are frozen. */
const diskMB = 2048
const settings = {
  ...noWarmPool,
  WARREN_MIN_FREE_DISK_MB: '0',
  WARREN_VOLUME_MB: '64',
}
const forever = { timeoutMs: 3_600_000 }

for (const isolation of isolations) {
  describe(`a full disk, ${isolation}`, () => {
    let warren: Warren
    let disk: SmallDisk
    let neighbour: Warren['client']
    let volume: Volume
    let bystander: Sandbox

    before(async () => {
      disk = mountSmallDisk(dataFolderOf(isolation, name), diskMB)
      warren = await startWarren(isolation, { name, settings })
      const operator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
      await warren.api('/admin/teams', { ...operator, body: { name: 'neighbour' } })
      const made = await warren.api('/admin/teams/neighbour/api-keys', { ...operator, body: { name: 'k' } })
      neighbour = { ...warren.client, apiKey: ((await made.json()) as { key: string }).key }
      volume = await Volume.create('kept', neighbour)
      const volumeMounts = { '/mnt/data': volume }
      bystander = await Sandbox.create('base', { ...neighbour, ...forever, volumeMounts })
      await bystander.commands.run('echo synced > /mnt/data/before && sync')
    })
    after(async () => {
      disk?.giveBack()
      for (const client of warren ? [warren.client, neighbour] : []) await killAll(client)
      await warren?.stop()
      disk?.remove()
    })

    afterEach(async () => {
      disk.giveBack()
      await killAll(warren.client)
      await killAll(neighbour, bystander.sandboxId)
      // All that they took comes back, a moment after their ends.
      await eventually(() => assert.ok(disk.freeMB() > diskMB * 0.8, `${disk.freeMB()} MiB are free`))
    })

    const start = async () => {
      warren = await startWarren(isolation, { name, settings, keepData: true })
    }
    const killAll = async (client: Warren['client'], except?: string) => {
      for (const { sandboxId } of await Sandbox.list(client).nextItems())
        if (sandboxId !== except) await Sandbox.kill(sandboxId, client)
    }
    /** The guard may still count what those before had written. */
    const createAttacker = async () => {
      let attacker: Sandbox | undefined
      await eventually(async () => {
        attacker = await Sandbox.create('base', { ...warren.client, ...forever })
      })
      return attacker!
    }
    /** Writes until somebody stops it. */
    const writeOn = (attacker: Sandbox) =>
      attacker.commands.run('while :; do cat /dev/zero > "/tmp/$RANDOM$RANDOM"; done', {
        background: true,
        timeoutMs: 0,
      })
    /** Writes so slowly that even a busy machine can freeze the sandbox, so that none has to end. */
    const writeSteadily = (attacker: Sandbox) =>
      attacker.commands.run('while :; do head -c 10M /dev/zero >> /tmp/big; sync /tmp/big; sleep 0.1; done', {
        background: true,
        timeoutMs: 0,
      })
    const askAgent = (sandbox: Sandbox) =>
      warren.api('/health', {
        headers: { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49983' },
        key: null,
        // A request that was forwarded just before the freeze waits until the sandbox continues.
        signal: AbortSignal.timeout(5000),
      })
    const untilStill = (sandbox: Sandbox) =>
      eventually(async () => {
        const answer = await askAgent(sandbox)
        assert.equal(answer.status, 507)
        assert.match(await answer.text(), /is frozen because the disk of this server is nearly full/)
      })
    /** What another team has and does while the disk is full. */
    const assertUnhurt = async (line: string) => {
      const listed = await Sandbox.list(neighbour).nextItems()
      assert.ok(listed.some(({ sandboxId }) => sandboxId === bystander.sandboxId))
      await bystander.setTimeout(forever.timeoutMs)
      const written = await bystander.commands.run(
        `cd /mnt/data && echo ${line} >> during && head -c 10M /dev/zero > large && sync && cat before && tail -1 during`,
      )
      assert.equal(written.stdout, `synced\n${line}\n`)
      assert.equal((await warren.api('/v2/sandboxes')).status, 200)
    }
    /** A fast writer is frozen early and thawed again, and so fills the disk in a few steps. */
    const untilNoCreate = () =>
      eventually(async () => {
        const answer = await warren.api('/sandboxes', { body: { templateID: 'base' } })
        const text = await answer.text()
        if (answer.status === 201) await Sandbox.kill(JSON.parse(text).sandboxID, warren.client)
        assert.equal(answer.status, 507, text)
        assert.match(text, /The disk of this server is nearly full/)
      })
    const untilCreated = () =>
      eventually(async () => {
        const sandbox = await Sandbox.create('base', neighbour)
        assert.equal((await sandbox.commands.run('echo well')).stdout, 'well\n')
        await sandbox.kill()
      })

    it('a sandbox that writes without end is frozen, its log has the reason, and all others keep running', async () => {
      const [attacker, killed] = [await createAttacker(), await Sandbox.create('base', neighbour)]
      await writeSteadily(attacker)
      await untilNoCreate()
      await untilStill(attacker)
      assert.ok(disk.freeMB() > 0, 'the disk never ran full')
      await assertUnhurt('first')
      assert.equal(await killed.kill(), true)
      await eventually(async () => {
        const logs = await (await warren.api(`/v2/sandboxes/${attacker.sandboxId}/logs`)).text()
        assert.match(logs, /is frozen because the disk/)
      })
      const operator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
      const figures = await (await warren.api('/metrics', operator)).text()
      assert.match(figures, /^warren_disk_held_sandboxes 1$/m)
      assert.match(readFileSync(warren.logFile, 'utf8'), /a sandbox that writes is frozen/)
      const gone = await warren.api(`/sandboxes/${attacker.sandboxId}`, { method: 'DELETE' })
      assert.equal(gone.status, 204)
      await untilCreated()
    })

    it('a team that fills the disk and stops keeps no other team from writing, creating and pausing', async () => {
      const attacker = await createAttacker()
      // Down to what is left above the level at which writers are frozen.
      const megabytes = Math.floor(disk.freeMB() - 400)
      await attacker.commands.run(`head -c ${megabytes}M /dev/zero > /tmp/big; sync /tmp/big`, {
        timeoutMs: 0,
      })
      await untilNoCreate()
      const writer = await Sandbox.create('base', neighbour)
      await writer.commands.run('head -c 150M /dev/zero > /tmp/own && sync /tmp/own')
      assert.equal((await writer.commands.run('stat -c %s /tmp/own')).stdout, `${150 << 20}\n`)
      await writer.pause()
      const again = await Sandbox.connect(writer.sandboxId, neighbour)
      assert.equal((await again.commands.run('stat -c %s /tmp/own')).stdout, `${150 << 20}\n`)
      await assertUnhurt('stopped')
      await again.kill()
    })

    it('a sandbox that writes at full speed is frozen or ends, its log has the reason, and all others keep running', async () => {
      const attacker = await createAttacker()
      await writeOn(attacker)
      await eventually(async () => {
        const logs = await (await warren.api(`/v2/sandboxes/${attacker.sandboxId}/logs`)).text()
        assert.match(logs, /is frozen because the disk|Sandbox ended: the disk of the server was full/)
      })
      assert.ok(disk.freeMB() > 0, 'the disk never ran full')
      await assertUnhurt('fast')
      await killAll(warren.client)
      await untilCreated()
    })

    it('a frozen sandbox loses nothing, and continues by itself when there is space', async () => {
      const ballastMB = 700
      disk.takeAway(ballastMB)
      const writer = await createAttacker()
      const megabytes = Math.floor(disk.freeMB()) - 150
      const script = `head -c ${megabytes}M /dev/zero | tr '\\0' x > big; echo $? > done`
      await writer.commands.run(script, { background: true, timeoutMs: 0, cwd: '/home/user' })
      await untilStill(writer)
      await assertUnhurt('second')
      disk.giveBack()
      await eventually(async () => assert.equal((await writer.commands.run('cat done')).stdout, '0\n'))
      const content = await writer.commands.run(`stat -c %s big; tr -d x < big | wc -c`)
      assert.equal(content.stdout, `${megabytes * 1024 * 1024}\n0\n`)
      await writer.kill()
      await untilCreated()
    })

    it('a Warren that is killed while the disk is full thaws no sandbox after its restart, and kills those it is asked to', async () => {
      const [attacker, expiring] = [await createAttacker(), await createAttacker()]
      for (const one of [attacker, expiring]) await writeSteadily(one)
      await untilNoCreate()
      for (const one of [attacker, expiring]) await untilStill(one)
      await warren.crash()
      await start()
      for (const one of [attacker, expiring]) await untilStill(one)
      await assertUnhurt('third')
      await untilNoCreate()
      await expiring.setTimeout(1000)
      await eventually(async () => {
        const listed = await Sandbox.list(warren.client).nextItems()
        assert.deepEqual(
          listed.map(({ sandboxId }) => sandboxId),
          [attacker.sandboxId],
        )
      })
      assert.equal(await attacker.kill(), true)
      await untilCreated()
    })

    it('a Warren starts on a disk that ran full in its absence, and all sandboxes can be killed', async () => {
      const attacker = await createAttacker()
      await writeOn(attacker)
      await warren.crash()
      await eventually(() => assert.ok(disk.freeMB() < 4, `${disk.freeMB()} MiB are free`))
      await start()
      await assertUnhurt('fourth')
      // The sandbox is frozen, or has ended if there was no space even for its earlier writes.
      const gone = await warren.api(`/sandboxes/${attacker.sandboxId}`, { method: 'DELETE' })
      assert.ok([204, 404].includes(gone.status), String(gone.status))
      if (gone.status === 404) {
        const logs = await (await warren.api(`/v2/sandboxes/${attacker.sandboxId}/logs`)).text()
        assert.match(logs, /Sandbox ended: the disk of the server was full/)
      }
      await untilCreated()
      await bystander.kill()
      await Volume.destroy(volume.volumeId, neighbour)
    })
  })
}
