/** `warren upgrade ARCHIVE`: puts a release in the place of this one and restarts the service. Sandboxes keep running. */

import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, realpath, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { AppError, errorText } from '../../lib/app-error.ts'
import { delay, systemClock } from '../../lib/clock.ts'
import { sha256OfFile } from '../../lib/file-digest.ts'
import { runCommand } from '../../lib/run-command.ts'

const readyWithinMs = 180_000
const askEveryMs = 500

type UpgradeParts = {
  archive: string
  /** The folder of this Warren. */
  folder: string
  /** The version of this Warren. */
  version: string
  /** The version that the running server tells once it is ready. Undefined: none is. */
  runningVersion: () => Promise<string | undefined>
  say: (line: string) => void
  service?: Service
}

/** What runs Warren on this machine. */
type Service = { runs(folder: string): Promise<boolean>; restart(): Promise<void> }

export async function upgradeToArchive(parts: UpgradeParts): Promise<string> {
  const { archive, folder, say, service = systemd } = parts
  const { version } = await checkArchive(archive, folder)
  const [next, before] = [`${folder}.new`, `${folder}.before`]
  say(`Unpacking Warren ${version} …`)
  await rm(next, { recursive: true, force: true })
  await mkdir(next)
  try {
    await runCommand('tar', ['-xzf', archive, '-C', next, '--strip-components=1', '--no-same-owner'])
    await tryOut(next, version)
    // The running server loads parts of its bundle later, by its path.
    const bundle = await realpath(join(folder, '.cache/bundle/current'))
    await cp(bundle, join(next, '.cache/bundle', basename(bundle)), { recursive: true, force: false })
    await rm(before, { recursive: true, force: true })
    await rename(folder, before)
    await rename(next, folder).catch(async (error) => {
      await rename(before, folder)
      throw error
    })
  } finally {
    await rm(next, { recursive: true, force: true })
  }
  const goBack = `To go back: mv ${folder} ${folder}.newer && mv ${before} ${folder}, then restart Warren.`
  if (!(await service.runs(folder))) {
    return `Warren ${version} is in ${folder}. Restart Warren to use it: sandboxes keep running meanwhile.\n${goBack}`
  }
  say('Restarting the service; sandboxes keep running …')
  try {
    await service.restart()
    await untilReady(parts, version)
  } catch (cause) {
    await rename(folder, next)
    await rename(before, folder)
    const why = `${errorText(cause)} So Warren ${parts.version} is back in ${folder}; the newer one is in ${next}, and its log is shown by journalctl -u warren.`
    const isBack = await service.restart().then(
      () => '',
      (error) => ` The service did not restart with it: ${errorText(error)}`,
    )
    throw new AppError('unavailable', why + isBack, { cause })
  }
  return `Warren ${version} serves. ${goBack}`
}

/** Rejects with what to do if this archive cannot take the place of this Warren. */
async function checkArchive(archive: string, folder: string): Promise<{ version: string }> {
  const reject = (why: string) => new AppError('invalid_argument', why)
  if (existsSync(join(folder, '.git')))
    throw reject(`${folder} is a clone: \`git pull\` there and restart Warren.`)
  if (folder.startsWith('/usr/lib/'))
    throw reject(
      'This Warren is a Debian package: run `apt install ./warren_VERSION_ARCH.deb` with the newer one.',
    )
  const [, version, architecture] = /^warren-(.+)-(x64|arm64)\.tar\.gz$/.exec(basename(archive)) ?? []
  if (version === undefined || !existsSync(archive))
    throw reject(`${archive} is no release: give the path of a warren-VERSION-${process.arch}.tar.gz.`)
  if (architecture !== process.arch)
    throw reject(`${basename(archive)} is for ${architecture}; this machine is ${process.arch}.`)
  const sums = join(dirname(archive), basename(archive).replace(/\.tar\.gz$/, '.sha256'))
  const listed = await readFile(sums, 'utf8').catch(() => {
    throw reject(`${sums} is missing: put the checksums of the release beside the archive.`)
  })
  const wanted = listed
    .split('\n')
    .find((line) => line.endsWith(`  ${basename(archive)}`))
    ?.split(' ')[0]
  if (wanted !== (await sha256OfFile(archive)))
    throw reject(`${basename(archive)} does not have the checksum in ${basename(sums)}: fetch it again.`)
  return { version }
}

/** The newer Warren runs on this machine before it takes the place of this one. */
async function tryOut(next: string, version: string): Promise<void> {
  const { stdout } = await runCommand(join(next, 'bin/warren'), ['version']).catch((error) => {
    throw new AppError('unavailable', `The newer Warren does not run here: ${errorText(error)}`, {
      cause: error,
    })
  })
  if (stdout.trim() !== version)
    throw new AppError('invalid_argument', `The archive has Warren ${stdout.trim()}, and not ${version}.`)
}

const systemd: Service = {
  async runs(folder) {
    if (!existsSync('/run/systemd/system')) return false
    const show = ['show', 'warren.service', '--property=ActiveState,ExecStart']
    const { stdout } = await runCommand('systemctl', show).catch(() => ({ stdout: '' }))
    return stdout.includes('ActiveState=active') && stdout.includes(`${folder}/bin/warren`)
  },
  async restart() {
    await runCommand('systemctl', ['restart', 'warren'])
  },
}

async function untilReady({ runningVersion }: UpgradeParts, version: string): Promise<void> {
  const until = systemClock.now() + readyWithinMs
  while ((await runningVersion()) !== version) {
    if (systemClock.now() >= until)
      throw new AppError('unavailable', `Warren ${version} was not ready within ${readyWithinMs / 1000} s.`)
    await delay(askEveryMs)
  }
}
