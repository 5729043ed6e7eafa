/** Sandboxes come and go at a fixed rate for a long time, and what the server holds stays as it was. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { countOf } from '../support/count-of.ts'
import { eventually } from '../support/eventually.ts'
import { settledTraces } from '../support/traces.ts'
import { isolations, startWarren, type Warren } from '../support/warren.ts'

const lives = countOf({ short: 8, long: 2400 })
/** At 500 ms the long count takes twenty minutes, where the machine keeps up. */
const everyMs = 500
const atOnce = 6
/** Connections that clients keep open for their next request, at both ends of the server. */
const maxIdle = 4 * atOnce
/** What garbage collection leaves for later; a leak of 30 kB per life is more in the long run. */
const maxGrowthMB = 64
/** The warm pool is always of the same size: two sandboxes of the base template. */
const settings = { WARREN_WARM_MEMORY_MB: '2048' }

for (const isolation of isolations) {
  describe(`a soak, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await startWarren(isolation, { settings })
    })
    after(() => warren?.stop())

    it(`of ${lives} lives leaves memory, descriptors, threads and the machine as they were`, async () => {
      // Caches fill and code is compiled before what is held means anything.
      await soak(warren, Math.ceil(lives / 4))
      const traces = await settledTraces(warren.dataFolder)
      const first = await settledServer(warren)
      await soak(warren, lives)
      assert.deepEqual(await settledTraces(warren.dataFolder), traces)
      await eventually(() => {
        const last = resourcesOf(warren.pid)
        const figures = JSON.stringify({ first, last })
        for (const kind of ['pipes', 'files', 'other', 'threads'] as const) {
          assert.ok(last[kind] <= first[kind], `more ${kind}: ${figures}`)
        }
        assert.ok(last.sockets <= first.sockets + maxIdle, `more sockets: ${figures}`)
        assert.ok(last.memoryMB - first.memoryMB < maxGrowthMB, `more memory: ${figures}`)
      })
    })
  })
}

async function soak(warren: Warren, count: number): Promise<void> {
  const running = new Set<Promise<void>>()
  for (let begun = 0; begun < count; begun++) {
    while (running.size >= atOnce) await Promise.race(running)
    const life = liveOnce(warren, { pauses: begun % 2 === 0 }).finally(() => running.delete(life))
    running.add(life)
    await delay(everyMs)
  }
  await Promise.all(running)
}

async function liveOnce(warren: Warren, { pauses }: { pauses: boolean }): Promise<void> {
  const sandbox = await Sandbox.create('base', warren.client)
  assert.equal((await sandbox.commands.run('echo hi')).stdout, 'hi\n')
  await sandbox.files.write('note', 'kept')
  if (pauses) await sandbox.pause()
  const again = pauses ? await Sandbox.connect(sandbox.sandboxId, warren.client) : sandbox
  assert.equal(await again.files.read('note'), 'kept')
  assert.equal(await again.kill(), true)
}

type OpenResources = Record<'sockets' | 'pipes' | 'files' | 'other' | 'threads' | 'memoryMB', number>

function resourcesOf(pid: number): OpenResources {
  const targets = readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`)
    } catch {
      return ''
    }
  })
  const count = (pattern: RegExp) => targets.filter((target) => pattern.test(target)).length
  const [sockets, pipes, files] = [count(/^socket:/), count(/^pipe:/), count(/^\//)]
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const figure = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1])
  const other = targets.filter((target) => target !== '').length - sockets - pipes - files
  return { sockets, pipes, files, other, threads: figure('Threads'), memoryMB: figure('VmRSS') / 1024 }
}

/** Waits until unused connections are closed: the counts have not changed for three seconds. */
async function settledServer({ pid }: Warren): Promise<OpenResources> {
  let before = resourcesOf(pid)
  for (let same = 0; same < 10; ) {
    await delay(300)
    const now = resourcesOf(pid)
    const isSteady = (['sockets', 'pipes', 'files', 'other'] as const).every(
      (kind) => now[kind] === before[kind],
    )
    same = isSteady ? same + 1 : 0
    before = now
  }
  return before
}
