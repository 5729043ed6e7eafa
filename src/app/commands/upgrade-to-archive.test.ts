import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, test } from 'node:test'
import { upgradeToArchive } from './upgrade-to-archive.ts'

const work = mkdtempSync(join(tmpdir(), 'warren-upgrade-'))
after(() => rmSync(work, { recursive: true }))

/** A folder as a release has it, whose `warren version` tells this. */
function makeFolder(path: string, version: string): void {
  mkdirSync(join(path, 'bin'), { recursive: true })
  writeFileSync(join(path, 'bin/warren'), `#!/bin/sh\necho ${version}\n`)
  chmodSync(join(path, 'bin/warren'), 0o755)
  mkdirSync(join(path, '.cache/bundle', version), { recursive: true })
  writeFileSync(join(path, '.cache/bundle', version, 'warren.mjs'), version)
  symlinkSync(version, join(path, '.cache/bundle/current'))
}

/** `says`: what the Warren inside tells of itself. */
function makeArchive(version: string, says = version): string {
  const folder = join(work, `warren-${version}`)
  rmSync(folder, { recursive: true, force: true })
  makeFolder(folder, says)
  const archive = join(work, `warren-${version}-${process.arch}.tar.gz`)
  execFileSync('tar', ['-czf', archive, '-C', work, basename(folder)])
  const sums = execFileSync('sha256sum', [basename(archive)], { cwd: work })
  writeFileSync(archive.replace('.tar.gz', '.sha256'), sums)
  return archive
}

const folder = join(work, 'installed')
const upgrade = (
  archive: string,
  installed = folder,
  service?: Parameters<typeof upgradeToArchive>[0]['service'],
) =>
  upgradeToArchive({
    archive,
    folder: installed,
    version: '1.0.0',
    runningVersion: async () => undefined,
    say: () => {},
    ...(service && { service }),
  })
const versionIn = (installed: string) =>
  execFileSync(join(installed, 'bin/warren'), { encoding: 'utf8' }).trim()

test('an archive takes the place of the present release, which stays beside it with the bundle of the running server', async () => {
  makeFolder(folder, '1.0.0')
  const said = await upgrade(makeArchive('2.0.0'))
  assert.match(said, /Warren 2\.0\.0 is in .*installed\. Restart Warren/)
  assert.deepEqual([versionIn(folder), versionIn(`${folder}.before`)], ['2.0.0', '1.0.0'])
  assert.equal(readFileSync(join(folder, '.cache/bundle/1.0.0/warren.mjs'), 'utf8'), '1.0.0')
  assert.equal(readFileSync(join(folder, '.cache/bundle/current/warren.mjs'), 'utf8'), '2.0.0')
})

test('what cannot take the place is rejected with what to do, and nothing changes', async () => {
  const archive = makeArchive('3.0.0')
  const sums = archive.replace('.tar.gz', '.sha256')
  writeFileSync(
    sums,
    readFileSync(sums, 'utf8').replace(/^./, (first) => (first === '0' ? '1' : '0')),
  )
  await assert.rejects(upgrade(archive), /does not have the checksum .*fetch it again/)
  rmSync(sums)
  await assert.rejects(upgrade(archive), /3\.0\.0-\w+\.sha256 is missing/)
  await assert.rejects(upgrade(makeArchive('4.0.0', '4.0.1')), /has Warren 4\.0\.1, and not 4\.0\.0/)
  await assert.rejects(
    upgrade(join(work, 'other.tar.gz')),
    /is no release: give the path of a warren-VERSION/,
  )
  const other = process.arch === 'x64' ? 'arm64' : 'x64'
  writeFileSync(join(work, `warren-5.0.0-${other}.tar.gz`), '')
  await assert.rejects(upgrade(join(work, `warren-5.0.0-${other}.tar.gz`)), /is for \w+; this machine is/)
  await assert.rejects(upgrade(archive, '/usr/lib/warren'), /Debian package: run `apt install/)
  mkdirSync(join(work, 'clone/.git'), { recursive: true })
  await assert.rejects(upgrade(archive, join(work, 'clone')), /is a clone: `git pull`/)
  assert.equal(versionIn(folder), '2.0.0')
})

test('a release with which the service does not restart gives its place back', async () => {
  const installed = join(work, 'serving')
  makeFolder(installed, '1.0.0')
  const restarted: string[] = []
  const service = {
    runs: async () => true,
    async restart() {
      restarted.push(versionIn(installed))
      if (restarted.length === 1) throw new Error('Job for warren.service failed.')
    },
  }
  await assert.rejects(
    upgrade(makeArchive('6.0.0'), installed, service),
    /Job for warren\.service failed\. So Warren 1\.0\.0 is back in .*serving; the newer one is in .*serving\.new/,
  )
  assert.deepEqual(restarted, ['6.0.0', '1.0.0'])
  assert.deepEqual([versionIn(installed), versionIn(`${installed}.new`)], ['1.0.0', '6.0.0'])
})
