/** Checks what the kernel must support. Each feature is tried, because a list of features can be wrong. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { release, tmpdir } from 'node:os'
import { join } from 'node:path'
import { errorText } from '../../lib/app-error.ts'
import { nearestFolder } from '../../lib/nearest-folder.ts'
import { pageBytes } from '../../lib/page-size.ts'
import { runCommand } from '../../lib/run-command.ts'
import { fail, ok, warn } from '../setup/finding.ts'
import type { MachineCheck } from './machine-check.ts'

const lastLine = (error: unknown): string => errorText(error).trim().split('\n').at(-1) ?? ''

export function judgeKernel(text: string) {
  const [major = 0, minor = 0] = text.split('.').map(Number)
  const number = major * 1000 + minor
  if (number < 4014) return fail(`Linux ${text}`, 'Warren needs Linux 4.14 or newer: update the system.')
  if (number < 5004) return warn(`Linux ${text} is old`, 'Debian 12, Ubuntu 24.04 or newer are what we try.')
  return ok(`Linux ${text}`)
}

export function judgeArchitecture(arch: string) {
  if (arch === 'x64') return ok('x86-64')
  if (arch === 'arm64')
    return warn('arm64 was tried in emulation alone', 'Tell us how it goes (docs/install.md).')
  return fail(arch, 'Warren runs on x86-64 and arm64.')
}

export function judgePages(bytes: number) {
  if (bytes === 4096) return ok('4 kB')
  return warn(
    `${bytes / 1024} kB: gVisor needs pages of 4 kB, so sandboxes are plain containers`,
    'Boot a kernel with pages of 4 kB, such as linux-image-arm64 of Debian.',
  )
}

const neededCapabilities = {
  CAP_CHOWN: 0,
  CAP_SETUID: 7,
  CAP_NET_ADMIN: 12,
  CAP_SYS_ADMIN: 21,
  CAP_MKNOD: 27,
}

/** `status` is the text of /proc/self/status. */
export function judgeCapabilities(status: string) {
  const effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)/m.exec(status)?.[1] ?? '0'}`)
  const missing = Object.entries(neededCapabilities).filter(([, bit]) => !(effective & (1n << BigInt(bit))))
  if (missing.length === 0) return ok('root, with all needed capabilities')
  const names = missing.map(([name]) => name).join(', ')
  return fail(`root, but without ${names}`, 'Is this a container? Run it privileged, or Warren on the host.')
}

const neededControllers = ['cpu', 'memory', 'pids']

/** `mounts` is the text of /proc/mounts; `unified` lists the controllers of the v2 hierarchy. */
export function judgeCgroups(mounts: string, unified: string) {
  const v1 = [...mounts.matchAll(/^\S+ \S+ cgroup (\S+)/gm)].flatMap((match) => match[1]!.split(','))
  const v2 = /^\S+ \S+ cgroup2 /m.test(mounts)
  const kind = v1.length === 0 ? (v2 ? 'v2' : 'none') : v2 ? 'v1 with a v2 mount beside it' : 'v1'
  const controllers = [...v1, ...unified.trim().split(/\s+/)]
  const missing = neededControllers.filter((name) => !controllers.includes(name))
  if (missing.length === 0) return ok(`${kind}, with ${neededControllers.join(', ')}`)
  return fail(
    `${kind}, without ${missing.join(', ')}`,
    'Sandboxes could not be limited. Boot with systemd and cgroup_enable=memory, or mount the controllers.',
  )
}

async function lookAtCgroups() {
  const files = ['/sys/fs/cgroup/cgroup.controllers', '/sys/fs/cgroup/unified/cgroup.controllers']
  const unified = files.filter((file) => existsSync(file)).map((file) => readFileSync(file, 'utf8'))
  return judgeCgroups(readFileSync('/proc/mounts', 'utf8'), unified.join(' '))
}

async function tryNamespaces() {
  const kinds = ['user', 'mount', 'pid', 'net', 'ipc', 'uts']
  try {
    await runCommand('unshare', [...kinds.map((kind) => `--${kind}`), '--map-root-user', '--fork', 'true'])
    return ok(kinds.join(', '))
  } catch (error) {
    return fail(
      `cannot be made: ${lastLine(error)}`,
      'Set user.max_user_namespaces (and kernel.unprivileged_userns_clone, where it is) above 0 with sysctl.',
    )
  }
}

async function tryOverlay(dataDir: string) {
  const folder = mkdtempSync(join(nearestFolder(dataDir), '.warren-doctor-'))
  try {
    for (const name of ['lower', 'upper', 'work', 'all']) mkdirSync(join(folder, name))
    const options = `lowerdir=${folder}/lower,upperdir=${folder}/upper,workdir=${folder}/work`
    const mount = ['mount', '-t', 'overlay', 'overlay', '-o', options, join(folder, 'all')]
    await runCommand('unshare', ['--mount', '--', ...mount])
    return ok(`works below ${dataDir}`)
  } catch (error) {
    return fail(
      `does not work below ${dataDir}: ${lastLine(error)}`,
      'Load the module (modprobe overlay), and put WARREN_DATA_DIR on ext4, XFS or btrfs.',
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function tryLoopDevice() {
  const folder = mkdtempSync(join(tmpdir(), 'warren-doctor-'))
  const image = join(folder, 'image')
  try {
    await writeFile(image, Buffer.alloc(1024 * 1024))
    const { stdout } = await runCommand('losetup', ['--find', '--show', image])
    await runCommand('losetup', ['--detach', stdout.trim()])
    return ok('can be made')
  } catch (error) {
    return fail(
      `cannot be made: ${lastLine(error)}`,
      'Disk limits need them. Load the module: modprobe loop; in a container, give it /dev/loop-control.',
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export const kernelChecks: readonly MachineCheck[] = [
  { name: 'kernel', look: () => judgeKernel(release()) },
  { name: 'processor', look: () => judgeArchitecture(process.arch) },
  { name: 'memory pages', look: () => judgePages(pageBytes()) },
  { name: 'Node', look: () => ok(process.version) },
  {
    name: 'rights',
    look: () => judgeCapabilities(readFileSync('/proc/self/status', 'utf8')),
  },
  { name: 'cgroups', look: lookAtCgroups },
  { name: 'namespaces', look: tryNamespaces },
  { name: 'overlayfs', look: (config) => tryOverlay(config.dataDir) },
  { name: 'loop devices', look: tryLoopDevice },
]
