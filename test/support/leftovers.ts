/**
 * What Warrens and drivers that are gone left on the machine, and how it is taken away. Everything carries the instance
 * in its name, which a link in a network tells, so whoever left it need not be known.
 */
import { existsSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSubnet } from '../../src/drivers/host/network/addresses.ts'
import { instanceOf } from '../../src/drivers/host/record/layout.ts'
import { processStart } from '../../src/lib/process-start.ts'
import { eventually } from './eventually.ts'
import { names, run } from './traces.ts'

/**
 * Before a Warren or a driver starts on its network: a test that was cut off leaves sandboxes, slots and rules, and with
 * any of those in the network the next start there is refused. What somebody still runs is left alone.
 */
export async function freeNetwork(subnet: string): Promise<void> {
  const routes = run('ip', '-4', '-oneline', 'route', 'show', 'root', subnet)
  const instances = [...routes.matchAll(/ dev w([0-9a-f]{6})\d+ /g)].map((match) => match[1]!)
  for (const instance of new Set([...instances, ...instancesWithGate(parseSubnet(subnet).gate)]))
    if (!isOwned(instance)) await loseInstance(instance)
}

/** A driver that was killed before its first slot left rules and no link. */
function instancesWithGate(gate: string): string[] {
  const tables = [...run('nft', 'list', 'tables', 'inet').matchAll(/warren_([0-9a-f]{6})$/gm)]
  const rules = (instance: string) => run('nft', 'list', 'chain', 'inet', `warren_${instance}`, 'to-host')
  return tables.map((match) => match[1]!).filter((instance) => rules(instance).includes(`ip daddr ${gate} `))
}

/** Takes everything of the sandboxes that a reboot of the machine takes, and nothing of the data folder. */
export const loseMachine = (dataFolder: string): Promise<void> => loseInstance(instanceOf(dataFolder))

async function loseInstance(instance: string): Promise<void> {
  // A runtime whose start was cut off by this may still make groups, or remove its own.
  await eventually(() => {
    for (const path of groupsOf(instance)) endAllIn(path)
    for (const path of groupsOf(instance)) rmdirSync(path)
  })
  for (const name of names('/run/netns').filter((one) => one.includes(instance)))
    run('ip', 'netns', 'del', name)
  for (const path of mountsBelow(`/run/warren-${instance}/`)) run('umount', '--lazy', path)
  rmSync(`/run/warren-${instance}`, { recursive: true, force: true })
  run('nft', 'delete', 'table', 'inet', `warren_${instance}`)
}

/** Whether the process that starts sandboxes there lives, and is not a later one with the same pid. */
function isOwned(instance: string): boolean {
  const [pid, started] = run('cat', `/run/warren-${instance}/owner`).split(' ')
  return started !== undefined && processStart(Number(pid)) === started
}

/** The innermost first. */
function mountsBelow(folder: string): string[] {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '')
  return mounts.filter((path) => path.startsWith(folder)).sort((a, b) => b.length - a.length)
}

/** The innermost first. */
function groupsOf(instance: string): string[] {
  const found = run('find', '/sys/fs/cgroup', '-type', 'd', '-path', `*warren-${instance}*`).split('\n')
  return found.filter((path) => path !== '').sort((a, b) => b.length - a.length)
}

function endAllIn(group: string): void {
  for (const pid of run('cat', join(group, 'cgroup.procs')).split('\n').map(Number)) {
    // The kernel shows 0 for one that is just ending; to `kill` that means the caller and its process group.
    if (pid > 0) killNow(pid)
  }
  // A frozen process dies once it may run again.
  for (const [file, word] of [
    ['freezer.state', 'THAWED'],
    ['cgroup.freeze', '0'],
  ] as const) {
    if (existsSync(join(group, file))) writeFileSync(join(group, file), word)
  }
}

function killNow(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
