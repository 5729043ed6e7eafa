/** The programs of the system that Warren calls: which are missing, and getting them through apt. */
import { existsSync } from 'node:fs'
import { AppError, errorText } from '../../lib/app-error.ts'
import { runAptGet } from './apt.ts'
import { findSystemProgram, programFolders } from './programs.ts'
import type { Progress } from './progress.ts'
import { isRelease } from './shipped.ts'

export type Need = { package: string; file: string; why: string }

/** A file without a slash is a program, looked for where programs are. */
export const systemNeeds: readonly Need[] = [
  { package: 'nftables', file: 'nft', why: 'walls off the network of sandboxes' },
  { package: 'iproute2', file: 'ip', why: 'makes the network of sandboxes' },
  { package: 'tini', file: 'tini-static', why: 'is the first process in a sandbox and reaps the dead' },
  { package: 'e2fsprogs', file: 'mkfs.ext4', why: 'formats the disk of a sandbox' },
  { package: 'mount', file: 'losetup', why: 'mounts the disk of a sandbox' },
  { package: 'util-linux', file: 'unshare', why: 'makes namespaces' },
  { package: 'hostname', file: 'hostname', why: 'names a sandbox' },
  { package: 'tar', file: 'tar', why: 'packs and unpacks templates' },
]

/** Needed only by a start that has to make the base template. */
export const baseNeeds: readonly Need[] = [
  { package: 'debootstrap', file: 'debootstrap', why: 'makes the base template' },
  {
    package: 'debian-archive-keyring',
    file: '/usr/share/keyrings/debian-archive-keyring.gpg',
    why: 'proves that the base template comes from Debian',
  },
]

/** Needed only by a start that has to download and build. */
export const downloadNeeds: readonly Need[] = [
  { package: 'ca-certificates', file: '/etc/ssl/certs/ca-certificates.crt', why: 'knows whom to trust' },
]

/** Not needed where gVisor works. */
export const containerNeed: Need = { package: 'runc', file: 'runc', why: 'starts sandboxes as containers' }

export function missingNeeds(needs: readonly Need[]): Need[] {
  return needs.filter(({ file }) => (file.includes('/') ? !existsSync(file) : !findSystemProgram(file)))
}

/**
 * Installs runc, which sandboxes need to be plain containers. If that fails, a machine with gVisor continues without runc;
 * whether gVisor works is tested later. A release brings gVisor and asks no network for more.
 */
export async function installContainerRuntime(
  hasGvisor: boolean,
  progress: Progress,
  install: typeof installSystemPackages = installSystemPackages,
): Promise<void> {
  if (hasGvisor && isRelease()) return
  try {
    await install([containerNeed], progress)
  } catch (error) {
    if (!hasGvisor) throw error
    progress.note(`Warren continues without runc, since sandboxes get gVisor. ${errorText(error)}`)
  }
}

export async function installSystemPackages(needs: readonly Need[], progress: Progress): Promise<void> {
  const missing = missingNeeds(needs)
  if (missing.length === 0) return
  const packages = missing.map((need) => need.package)
  progress.note('These system packages are missing:')
  for (const need of missing) progress.note(`  ${need.package}: ${need.why}`)
  if (!findSystemProgram('apt-get')) {
    throw new AppError(
      'unavailable',
      `This machine has no apt-get, so Warren cannot install them. Install the packages that bring ${missing.map((need) => need.file).join(', ')}, then start again.`,
    )
  }
  await progress.step(`Install ${packages.join(', ')}`, async (advance) => {
    const install = () => runAptGet(advance, ['install', '--no-install-recommends', ...packages])
    try {
      // The lists may be missing or old; fetching them first would cost every machine where they are good.
      await install().catch(() => runAptGet(() => {}, ['update']).then(install))
    } catch (error) {
      throw new AppError(
        'unavailable',
        `${errorText(error)}\nSee to it that \`apt-get update && apt-get install ${packages.join(' ')}\` works, then start again.`,
        { cause: error },
      )
    }
  })
  const stillMissing = missingNeeds(missing)
  if (stillMissing.length > 0) {
    throw new AppError(
      'unavailable',
      `apt-get ran, but ${stillMissing.map((need) => need.file).join(', ')} cannot be found in ${programFolders.join(', ')}.`,
    )
  }
}
