/**
 * A release starts where npm is of no use, and a newer one takes its data and its sandboxes over. The one before is made
 * from the commit in before-release.json.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Sandbox } from 'e2b'
import { makeRelease } from '../../src/app/release/make-release.ts'
import { beforeRelease } from '../support/before-release.ts'
import { anyIsolation, noWarmPool, startWarren } from '../support/warren.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-upgrade-'))
after(() => rmSync(folder, { recursive: true, force: true }))

test('a newer release opens the data of the previous one, and its sandboxes keep running', async () => {
  const made = await makeRelease(join(folder, 'dist'), { onlyArchive: true, version: '9.9.9' })

  const installed = join(folder, 'warren')
  mkdirSync(installed)
  const unpack = (archive: string) => {
    const { status, stderr } = spawnSync('tar', ['-xzf', archive, '-C', installed, '--strip-components=1'])
    assert.equal(status, 0, String(stderr))
  }
  const settings = { ...noWarmPool, PATH: `${npmThatReports(folder)}:${process.env.PATH}` }
  const start = (keepData: boolean) =>
    startWarren(anyIsolation, {
      name: 'upgrade',
      settings,
      keepData,
      program: join(installed, 'bin/warren'),
    })

  unpack(await beforeRelease())
  const before = await start(false)
  const paused = await Sandbox.create({ ...before.client, timeoutMs: 600_000 })
  await paused.files.write('/home/user/kept', 'from before')
  await paused.pause()
  const running = await Sandbox.create({ ...before.client, timeoutMs: 600_000 })
  await running.files.write('/home/user/kept', 'still here')
  await before.stop()

  unpack(made.archive)
  const now = await start(true)
  try {
    const { info } = (await (await now.api('/openapi.json')).json()) as { info: { version: string } }
    assert.equal(info.version, '9.9.9')
    assert.equal(await running.files.read('/home/user/kept'), 'still here')
    const resumed = await Sandbox.connect(paused.sandboxId, now.client)
    assert.equal(await resumed.files.read('/home/user/kept'), 'from before')
    await resumed.kill()
    await running.kill()
  } finally {
    await now.stop()
  }
  assert.ok(!existsSync(join(folder, 'npm-was-asked')), 'the release asked npm for something')
})

/** A folder with an npm that only leaves a mark. */
function npmThatReports(within: string): string {
  const bin = join(within, 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'npm'), `#!/bin/sh\ntouch ${join(within, 'npm-was-asked')}\nexit 1\n`)
  chmodSync(join(bin, 'npm'), 0o755)
  return bin
}
