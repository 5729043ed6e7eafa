/**
 * What the sandboxes of one Warren leave in the kernel and on disk, counted, so that nothing left over goes
 * unseen. Everything the driver makes carries the instance in its name or lies below the data folder.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { instanceOf } from '../../src/drivers/host/record/layout.ts'
import { delay } from '../../src/lib/clock.ts'

export type Traces = {
  processes: number
  mounts: number
  loopDevices: number
  networkNamespaces: number
  mountNamespaces: number
  links: number
  cgroups: number
  rules: number
  files: number
}

export function countTraces(dataFolder: string): Traces {
  const instance = instanceOf(dataFolder)
  const naming = (text: string, ...words: string[]) =>
    text.split('\n').filter((line) => words.some((word) => line.includes(word))).length
  return {
    processes: countProcesses(instance, dataFolder),
    mounts: naming(readFileSync('/proc/self/mounts', 'utf8'), `warren-${instance}`, `${dataFolder}/`),
    loopDevices: naming(run('losetup', '--list', '--noheadings', '--output', 'BACK-FILE'), `${dataFolder}/`),
    networkNamespaces: names('/run/netns').filter((name) => name.includes(instance)).length,
    mountNamespaces: names(`/run/warren-${instance}/mnt`).length,
    links: naming(run('ip', '-o', 'link'), `w${instance}`),
    cgroups: naming(run('find', '/sys/fs/cgroup', '-type', 'd', '-path', `*warren-${instance}*`), instance),
    rules: run('nft', 'list', 'table', 'inet', `warren_${instance}`).split('\n').length,
    files: ['sandboxes', 'disks', 'saved'].flatMap((folder) => names(join(dataFolder, folder))).length,
  }
}

/** The counts once nothing changes any more: the pool of prepared slots is full again. */
export async function settledTraces(dataFolder: string): Promise<Traces> {
  let before = countTraces(dataFolder)
  for (let same = 0; same < 5; ) {
    await delay(300)
    const now = countTraces(dataFolder)
    same = JSON.stringify(now) === JSON.stringify(before) ? same + 1 : 0
    before = now
  }
  return before
}

/** Those in a cgroup of ours, and those that name the data folder: runtimes, gofers, the server itself. */
function countProcesses(instance: string, dataFolder: string): number {
  const about = (pid: string, file: string): string => {
    try {
      return readFileSync(`/proc/${pid}/${file}`, 'utf8')
    } catch {
      return ''
    }
  }
  const isOurs = (pid: string) =>
    about(pid, 'cgroup').includes(`warren-${instance}`) || about(pid, 'cmdline').includes(`${dataFolder}/`)
  // What has ended and fell to the machine's own init is its to reap, when it gets to it.
  const isReaped = (pid: string) => /\) Z 1 /.test(about(pid, 'stat'))
  return names('/proc').filter((name) => /^\d+$/.test(name) && isOurs(name) && !isReaped(name)).length
}

/** None where there is no such folder. */
export function names(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** What the program prints; nothing where it fails. */
export function run(program: string, ...args: string[]): string {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    return ''
  }
}
