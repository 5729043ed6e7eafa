/** How much of the machine's CPU time nobody used: whether a run can be faster with more at a time, or only with less to do. */
import { readFileSync } from 'node:fs'

/** Since the machine's start, in the kernel's ticks, over all CPUs. */
export type CpuTimes = { idle: number; all: number }

export function readCpuTimes(stat = readFileSync('/proc/stat', 'utf8')): CpuTimes {
  // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in user and nice already.
  const ticks = /^cpu +(.*)$/m.exec(stat)![1]!.split(' ').slice(0, 8).map(Number)
  return { idle: ticks[3]! + ticks[4]!, all: ticks.reduce((sum, each) => sum + each) }
}

/** Between 0 and 1. */
export function idleShare(from: CpuTimes, to: CpuTimes): number {
  return to.all === from.all ? 0 : (to.idle - from.idle) / (to.all - from.all)
}
