/** The size that a template declares is the size inside, on every way to a sandbox, on both runtimes. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { CommandExitError, Sandbox, Template } from 'e2b'
import { listening } from '../support/building.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

type Size = { cpuCount: number; memoryMB: number }

const large: Size = { cpuCount: 2, memoryMB: 1024 }
const small: Size = { cpuCount: 1, memoryMB: 512 }
/** Fits into the large size and not into the small one. */
const touchedMB = 640
const touch = (then: string) => `python3 -c "held = b'x' * (${touchedMB} << 20); ${then}"`

for (const isolation of isolations) {
  describe(`sizes of sandboxes, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    /** Looks from inside, and takes more memory than the small size has. */
    async function assertSize(sandbox: Sandbox, { cpuCount, memoryMB }: Size, way: string): Promise<void> {
      const { stdout } = await sandbox.commands.run("nproc; awk '/MemTotal/ {print $2}' /proc/meminfo")
      const [cpus, totalKB] = stdout.split('\n').map(Number)
      assert.equal(cpus, cpuCount, `${way}: nproc`)
      assert.equal(Math.round(totalKB! / 1024), memoryMB, `${way}: MemTotal`)
      const info = await sandbox.getInfo()
      assert.deepEqual([info.cpuCount, info.memoryMB], [cpuCount, memoryMB], `${way}: the API`)
      if (memoryMB > touchedMB) {
        await sandbox.commands.run(touch('print(len(held))'))
      } else {
        const touched = sandbox.commands.run(touch('import time; time.sleep(3600)'), { timeoutMs: 0 })
        await assert.rejects(touched, CommandExitError, `${way}: memory beyond the size`)
      }
    }

    async function inSandbox(template: string, look: (sandbox: Sandbox) => Promise<void>): Promise<void> {
      const sandbox = await Sandbox.create(template, { ...warren.client, timeoutMs: 3_600_000 })
      try {
        await look(sandbox)
      } finally {
        await sandbox.kill()
      }
    }

    /** Connects again, forks, and makes a template of a snapshot. */
    async function assertSizeOnEveryWay(template: string, size: Size): Promise<void> {
      await inSandbox(template, async (created) => {
        await assertSize(created, size, `${template}, created`)
        await created.pause()
        await assertSize(await created.connect(), size, `${template}, resumed`)
        await created.pause({ keepMemory: false })
        await assertSize(await created.connect(), size, `${template}, resumed without memory`)
        const [fork] = await created.fork({ timeoutMs: 3_600_000 })
        if (!(fork instanceof Sandbox)) return assert.fail(String(fork))
        await assertSize(fork, size, `${template}, forked`)
        await fork.kill()
        const { snapshotId } = await created.createSnapshot()
        await inSandbox(snapshotId, (sandbox) => assertSize(sandbox, size, `${template}, from a snapshot`))
        await Sandbox.deleteSnapshot(snapshotId, warren.client)
      })
    }

    const sizes = { large, small }
    for (const first of ['large', 'small'] as const) {
      const second = first === 'large' ? 'small' : 'large'

      it(`a ${second} template whose steps were cached by a ${first} one is ${second}`, async () => {
        const steps = () =>
          Template()
            .fromBaseImage()
            .runCmd(`echo ${first} > /home/user/first`)
            .setUser('user')
            .setWorkdir('/home/user')
        await Template.build(steps(), `size-${first}`, { ...warren.client, ...sizes[first] })
        const { lines, options } = listening(warren)
        await Template.build(steps(), `size-of-${first}`, { ...options, ...sizes[second] })
        assert.ok(lines.filter((line) => line.startsWith('CACHED')).length >= 3, lines.join('\n'))
        await assertSizeOnEveryWay(`size-of-${first}`, sizes[second])
      })
    }

    it('a template with a service that begins with a template of another size has its own size', async () => {
      const service = Template().fromBaseImage().setStartCmd('sleep infinity', 'true')
      await Template.build(service, 'size-parent', { ...warren.client, ...large })
      await inSandbox('size-parent', (sandbox) => assertSize(sandbox, large, 'the parent'))
      await Template.build(Template().fromTemplate('size-parent'), 'size-child', {
        ...warren.client,
        ...small,
      })
      await assertSizeOnEveryWay('size-child', small)
    })
  })
}
