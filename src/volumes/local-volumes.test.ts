/** Volumes on real disks: this needs root and loop devices, as sandboxes do. */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { describe, it } from 'node:test'
import { eventually } from '../../test/support/eventually.ts'
import { ManualClock } from '../lib/clock.ts'
import { silentLog } from '../lib/log.ts'
import { runCommand } from '../lib/run-command.ts'
import { LocalVolumes } from './local-volumes.ts'

async function openVolumes() {
  const folder = mkdtempSync(join(tmpdir(), 'warren-volumes-'))
  const clock = new ManualClock()
  const disk = { free: Number.POSITIVE_INFINITY }
  const warnings: string[] = []
  const log = { ...silentLog, warn: (_values: object, message: string) => void warnings.push(message) }
  const hasSpaceFor = async (bytes: number) => bytes <= disk.free
  const open = async () => {
    const volumes = new LocalVolumes({ folder, firstOwner: 200_000, hasSpaceFor, clock, log })
    await volumes.open()
    return volumes
  }
  const volumes = await open()
  return {
    folder,
    clock,
    volumes,
    open,
    disk,
    warnings,
    devices: async () => {
      const { stdout } = await runCommand('losetup', ['--list', '--noheadings', '--output', 'NAME,BACK-FILE'])
      return stdout.split('\n').filter((line) => line.includes(`${folder}/`))
    },
    async [Symbol.asyncDispose]() {
      await volumes.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const pieces = (data: string | Buffer) => Readable.from([Buffer.from(data)]) as AsyncIterable<Buffer>
const whole = (size: number) => ({ start: 0, length: size })

describe('stored volumes', () => {
  it('keep their content over a new process, and occupy no device while unused', async () => {
    await using stored = await openVolumes()
    const { volumes, devices, clock } = stored
    await volumes.create('one', 16)
    assert.deepEqual(await volumes.list(), ['one'])
    await volumes.useFiles('one', (files) => files.write('/file', pieces('kept'), {}, false))
    assert.equal((await devices()).length, 1)
    clock.advance(5 * 60_000)
    await volumes.closeIdle()
    await eventually(async () => assert.deepEqual(await devices(), []))
    const next = await stored.open()
    try {
      const read = await next.useFiles('one', async (files) =>
        text((await files.read('/file', whole)).stream),
      )
      assert.equal(read, 'kept')
    } finally {
      await next.close()
    }
    await eventually(async () => assert.deepEqual(await devices(), []))
  })

  it('have one device for all that mount them, however many ask at once', async () => {
    await using stored = await openVolumes()
    const { volumes, devices } = stored
    await volumes.create('one', 16)
    const acquired = await Promise.all([
      ...Array.from({ length: 8 }, () => volumes.acquire('one')),
      volumes.useFiles('one', async () => ({ disk: undefined, release: async () => {} })),
    ])
    assert.equal((await devices()).length, 1)
    const [device] = (await devices())[0]!.split(' ')
    for (const { disk } of acquired) if (disk) assert.equal(disk.device, device)
    for (const { release } of acquired) await release()
  })

  it('reject with no_space when they are full, keep their content, and leave no half-written file', async () => {
    await using stored = await openVolumes()
    const { volumes } = stored
    await volumes.create('one', 16)
    await volumes.useFiles('one', async (files) => {
      await files.write('/kept', pieces('kept'), {}, false)
      const large = Buffer.alloc(20 * 1024 * 1024, 'x')
      await assert.rejects(files.write('/large', pieces(large), {}, false), { code: 'no_space' })
      await assert.rejects(files.stat('/large'), { code: 'not_found' })
      await files.write('/small', pieces(large.subarray(0, 1024 * 1024)), {}, false)
      assert.equal(await text((await files.read('/kept', whole)).stream), 'kept')
    })
  })

  it('have all their blocks from the beginning, and keep them when files are deleted', async () => {
    await using stored = await openVolumes()
    const { volumes, folder } = stored
    await volumes.create('one', 64)
    const image = join(folder, 'one.ext4')
    const assertWhole = () => {
      const { size, blocks } = statSync(image)
      assert.equal(size, 64 * 1024 * 1024)
      assert.ok(blocks * 512 >= size, `${blocks} blocks`)
    }
    assertWhole()
    await volumes.useFiles('one', async (files) => {
      await files.write('/file', pieces(Buffer.alloc(20 * 1024 * 1024, 'x')), {}, false)
      await files.remove('/file')
    })
    await volumes.close()
    assertWhole()
    assert.equal(await volumes.promisedBytes(), 0)
  })

  it('are rejected if the disk has no space for them, and leave nothing behind', async () => {
    await using stored = await openVolumes()
    const { volumes, folder, disk } = stored
    disk.free = 15 * 1024 * 1024
    await assert.rejects(volumes.create('one', 16), { code: 'no_space', message: /takes its 16 MiB when/ })
    assert.deepEqual(readdirSync(folder), ['mounted'])
    disk.free = 16 * 1024 * 1024
    await volumes.create('one', 16)
  })

  it('of an earlier version get their blocks when they are opened, or report that there are too few', async () => {
    await using stored = await openVolumes()
    const { volumes, folder, disk, warnings } = stored
    await volumes.create('one', 64)
    const image = join(folder, 'one.ext4')
    await runCommand('cp', ['--sparse=always', image, `${image}.sparse`])
    renameSync(`${image}.sparse`, image)
    assert.ok(statSync(image).blocks * 512 < 32 * 1024 * 1024)
    disk.free = 0
    for (let time = 0; time < 2; time++) {
      await volumes.useFiles('one', (files) => files.write(`/${time}`, pieces('kept'), {}, false))
      await volumes.close()
    }
    assert.equal(warnings.length, 1)
    assert.match(warnings[0]!, /too little space to allocate/)
    disk.free = Number.POSITIVE_INFINITY
    const read = await volumes.useFiles('one', async (files) => text((await files.read('/1', whole)).stream))
    assert.equal(read, 'kept')
    assert.ok(statSync(image).blocks * 512 >= 64 * 1024 * 1024)
  })

  it('are removed while somebody still reads, and a later reader gets an error', async () => {
    await using stored = await openVolumes()
    const { volumes, folder, devices } = stored
    await volumes.create('one', 16)
    await volumes.useFiles('one', async (files) => {
      await files.write('/file', pieces('x'), {}, false)
      await volumes.remove('one')
      assert.equal((await files.stat('/file')).size, 1)
    })
    assert.ok(!existsSync(join(folder, 'one.ext4')))
    await volumes.remove('one')
    await assert.rejects(volumes.acquire('one'), { code: 'unavailable' })
    await assert.rejects(
      volumes.useFiles('one', async () => {}),
      { code: 'unavailable' },
    )
    await eventually(async () => assert.deepEqual(await devices(), []))
  })

  it('are removed at the next start if a crash left them half-made', async () => {
    await using stored = await openVolumes()
    writeFileSync(join(stored.folder, 'making-x'), '')
    await (await stored.open()).close()
    assert.deepEqual(readdirSync(stored.folder), ['mounted'])
  })
})
