/** What sandboxes leave in the kernel and on disk, counted for one Warren, so that nothing left over goes unseen. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export type Traces = {
  processes: number
  mounts: number
  loopDevices: number
  namespaces: number
  links: number
  cgroups: number
  rules: number
  files: number
}

const lines = (text: string): string[] => text.split('\n').filter((line) => line.trim() !== '')
const run = (program: string, ...args: string[]): string => execFileSync(program, args, { encoding: 'utf8' })

/** Whole-machine counts but for processes (those with a path of the data folder in their arguments) and files. */
export function countTraces(dataFolder: string): Traces {
  return {
    processes: processesNaming(dataFolder).length,
    mounts: lines(readFileSync('/proc/self/mounts', 'utf8')).length,
    loopDevices: lines(run('losetup', '--list', '--noheadings')).length,
    namespaces: lines(run('lsns', '--noheadings', '--output', 'NS')).length,
    links: lines(run('ip', '-o', 'link')).length,
    cgroups: countCgroups(),
    rules: lines(run('nft', 'list', 'ruleset')).length,
    files: countFiles(join(dataFolder, 'sandboxes')),
  }
}

function processesNaming(folder: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`${folder}/`)
    } catch {
      return false
    }
  })
}

function countCgroups(): number {
  return lines(run('find', '/sys/fs/cgroup', '-mindepth', '1', '-type', 'd')).length
}

function countFiles(folder: string): number {
  try {
    return readdirSync(folder, { recursive: true }).length
  } catch {
    return 0
  }
}
