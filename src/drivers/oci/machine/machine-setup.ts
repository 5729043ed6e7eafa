/**
 * Sets up the machine before the first sandbox: folders, forwarding, the firewall, and the lock against a second process
 * that starts sandboxes in the same data folder. All of it outlives this process, and the next process takes it over.
 */
import { readFileSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { AppError } from '../../../lib/app-error.ts'
import { ifPresent } from '../../../lib/if-present.ts'
import { processStart } from '../../../lib/process-start.ts'
import { CommandFailed, runCommand } from '../../../lib/run-command.ts'
import { maxDiskLayers } from '../../host/disk/root-layers.ts'
import type { Subnet } from '../../host/network/addresses.ts'
import type { Firewall } from '../../host/network/firewall.ts'
import type { Cgroups } from '../../host/process/cgroups.ts'
import type { Layout } from '../../host/record/layout.ts'
import type { OciContext } from '../context/context.ts'
import { mountShown, unmountShown } from './shown-mounts.ts'

const forwarding = '/proc/sys/net/ipv4/ip_forward'
const minLimits = {
  '/proc/sys/fs/inotify/max_user_instances': 8192,
  '/proc/sys/fs/inotify/max_user_watches': 1_048_576,
  '/proc/sys/kernel/pty/max': 65_536,
}
/** The value that systemd sets on every 64-bit machine. The kernel's default suits a machine with one user. */
const pidMax = { path: '/proc/sys/kernel/pid_max', min: 4_194_304 }
/** For root alone. */
const closed = 0o700
/** A worse metric than any real route has, so that the route only catches addresses that no sandbox has. */
const blackholeMetric = '4278198272'

export async function setUpMachine(
  layout: Layout,
  firewall: Firewall,
  subnet: Subnet,
  cgroups: Cgroups,
): Promise<void> {
  await mkdir(layout.run, { recursive: true })
  await chmod(layout.run, 0o711)
  await takeOwnership(layout)
  await refuseUsedSubnet(layout, subnet)
  await makeFolders(layout)
  await mountShown(layout)
  await makePrivateMount(layout.mountNamespaces)
  await cgroups.makeParent(layout.cgroupParent)
  await firewall.load()
  await runCommand('ip', ['route', 'replace', 'blackhole', subnet.cidr, 'metric', blackholeMetric])
  // After the rules that close the gate's address to everybody but sandboxes.
  await runCommand('ip', ['address', 'replace', `${subnet.gate}/32`, 'dev', 'lo', 'scope', 'host'])
  await raiseLimits()
  // Last, so that the kernel forwards nothing before the rules are in place.
  if (readFileSync(forwarding, 'utf8').trim() !== '1') await writeFile(forwarding, '1')
}

/** Also closes what an earlier release left open to other users of the machine. Sandboxes that run need no path any more. */
async function makeFolders(layout: Layout): Promise<void> {
  const { sandboxes, disks, mountNamespaces, diskMount, layerMounts, runtimeStates } = layout
  for (const folder of [sandboxes, disks, mountNamespaces, diskMount, layerMounts, runtimeStates]) {
    await mkdir(folder, { recursive: true })
    await chmod(folder, closed)
  }
  for (const name of await readdir(sandboxes)) await chmod(layout.sandbox(name), closed)
  for (const file of [layout.owner, layout.nextSlot]) await ifPresent(chmod(file, 0o600))
  for (let number = 1; number <= maxDiskLayers; number++) {
    await mkdir(layout.layerMount(number), { recursive: true })
  }
  for (const folder of [
    layout.rootMount,
    layout.kitMount,
    layout.procMount,
    layout.sysMount,
    layout.gpuMount,
  ]) {
    await mkdir(folder, { recursive: true })
  }
}

/** Limits the memory of all sandboxes together. Beyond the limit the kernel kills a sandbox's process and no other. */
export async function limitTotalMemory(
  { layout, cgroups, totalMemoryMB }: Pick<OciContext, 'layout' | 'cgroups' | 'totalMemoryMB'>,
  log: (message: string, cause?: unknown) => void,
): Promise<void> {
  const bytes = totalMemoryMB === null ? null : totalMemoryMB * 1024 * 1024
  const isSet = await cgroups.limitMemory(layout.cgroupParent, bytes).catch((error) => {
    throw new AppError(
      'unavailable',
      'WARREN_MEMORY_MB is set, but the memory of all sandboxes together cannot be limited here: the memory controller of ' +
        'the cgroups is missing or is not passed on to Warren.',
      { cause: error },
    )
  })
  if (!isSet)
    log(
      `Sandboxes already use more than ${totalMemoryMB} MiB, so the kernel did not accept this limit and the old one stays.`,
    )
}

/** Two Warrens that route the same addresses would get each other's packets. */
async function refuseUsedSubnet(layout: Layout, { cidr, gate }: Subnet): Promise<void> {
  const { stdout } = await runCommand('ip', ['-4', '-oneline', 'route', 'show', 'root', cidr])
  const links = [...stdout.matchAll(/ dev (w[0-9a-f]{6}\d+) /g)].map((match) => match[1]!)
  const other = links.find((link) => !link.startsWith(layout.linkPrefix))
  if (other !== undefined) {
    throw new AppError(
      'conflict',
      `Sandboxes of another Warren are in the network ${cidr} (${other}): set WARREN_SUBNET to one that is free, ` +
        'or stop the other one and its sandboxes.',
    )
  }
  const table = await otherTableOf(gate, layout.table)
  if (table === undefined) return
  throw new AppError(
    'conflict',
    `The firewall has rules of another Warren for the network ${cidr} (table ${table}), which would reject requests of ` +
      'our sandboxes: set WARREN_SUBNET to a network that is free, or stop the other one. If none runs, it was killed ' +
      `before it had a sandbox: remove its rules with "nft delete table inet ${table}".`,
  )
}

/** A Warren without a sandbox has no link that tells its network, and its rules close the gate to the sandboxes of others. */
async function otherTableOf(gate: string, own: string): Promise<string | undefined> {
  const { stdout } = await runCommand('nft', ['list', 'tables', 'inet'])
  const tables = [...stdout.matchAll(/^table inet (warren_[0-9a-f]{6})$/gm)].map((match) => match[1]!)
  for (const table of tables.filter((one) => one !== own)) {
    const chain = await runCommand('nft', ['list', 'chain', 'inet', table, 'to-host']).catch((error) => {
      // It was removed at this moment.
      if (error instanceof CommandFailed && error.stderr.includes('No such file or directory'))
        return undefined
      throw error
    })
    if (chain?.stdout.includes(`ip daddr ${gate} `)) return table
  }
}

/** The kernel counts the file watchers of all containers together, and its default limit suits one desktop. */
async function raiseLimits(): Promise<void> {
  for (const [path, min] of Object.entries(minLimits)) {
    if (Number(readFileSync(path, 'utf8')) < min) await writeFile(path, String(min))
  }
  if (Number(readFileSync(pidMax.path, 'utf8')) < pidMax.min) {
    // If the limit cannot be raised, all sandboxes together have fewer processes.
    await writeFile(pidMax.path, String(pidMax.min)).catch(() => {})
  }
}

/** Undoes `setUpMachine`. Call it only when no sandbox is left. */
export async function tearDownMachine(
  layout: Layout,
  firewall: Firewall,
  subnet: Subnet,
  cgroups: Cgroups,
): Promise<void> {
  await runCommand('ip', ['address', 'del', `${subnet.gate}/32`, 'dev', 'lo']).catch(() => {})
  await firewall.remove()
  await runCommand('ip', ['route', 'del', 'blackhole', subnet.cidr, 'metric', blackholeMetric]).catch(
    () => {},
  )
  await runCommand('umount', [layout.mountNamespaces]).catch(() => {})
  await unmountShown(layout)
  await cgroups.removeIfEmpty(layout.cgroupParent)
  await rm(layout.run, { recursive: true, force: true })
}

/** Removes only the mark that this process starts sandboxes: those that still run need the rest. */
export async function releaseOwnership(layout: Layout): Promise<void> {
  await rm(layout.owner, { force: true })
}

/** The kernel lets a mount namespace be kept only below a private mount. */
async function makePrivateMount(folder: string): Promise<void> {
  if (readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${folder} `)) return
  await runCommand('mount', ['--bind', '--make-private', folder, folder])
}

async function takeOwnership(layout: Layout): Promise<void> {
  const mine = `${process.pid} ${processStart(process.pid)}`
  const owner = (await ifPresent(readFile(layout.owner, 'utf8'))) ?? ''
  const [pid, start] = owner.split(' ')
  if (owner !== mine && pid && start && processStart(Number(pid)) === start) {
    throw new AppError(
      'conflict',
      `Process ${pid} already runs sandboxes in this data folder; stop it or use another folder.`,
    )
  }
  await writeFile(layout.owner, mine, { mode: 0o600 })
}
