/** GET /metrics: the resources of the sandbox and their use, as seen from inside. */
import { readdirSync, readFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import type { Clock } from '../lib/clock.ts'

const mebibyte = 1024 * 1024
/** The length of one tick, the kernel's unit of CPU time. */
const tickMs = 10
/** Two calls in quick succession return the same share: a shorter time measures nothing. */
const shortestSpanMs = 500

export type AgentMetrics = {
  /** Unix seconds. */
  ts: number
  cpu_count: number
  /** Since the previous call; 100 means that all CPUs are busy. */
  cpu_used_pct: number
  mem_total: number
  mem_used: number
  mem_cache: number
  mem_total_mib: number
  mem_used_mib: number
  disk_used: number
  disk_total: number
}

type CpuReading = { uptimeMs: number; usedMs: number; usedPct: number }

let cpuBefore: CpuReading = { uptimeMs: 0, usedMs: 0, usedPct: 0 }

export async function readMetrics(clock: Clock): Promise<AgentMetrics> {
  const cpuCount = readProc('stat').match(/^cpu\d/gm)?.length ?? 1
  cpuBefore = cpuReading(cpuBefore, process.uptime() * 1000, cpuTimeMs(), cpuCount)
  const memory = memoryUse(readProc('meminfo'))
  const disk = await statfs('/')
  return {
    ts: Math.floor(clock.now() / 1000),
    cpu_count: cpuCount,
    cpu_used_pct: cpuBefore.usedPct,
    mem_total: memory.total,
    mem_used: memory.used,
    mem_cache: memory.cache,
    mem_total_mib: Math.floor(memory.total / mebibyte),
    mem_used_mib: Math.floor(memory.used / mebibyte),
    disk_used: (disk.blocks - disk.bfree) * disk.bsize,
    disk_total: disk.blocks * disk.bsize,
  }
}

export function cpuReading(
  before: CpuReading,
  uptimeMs: number,
  usedMs: number,
  cpuCount: number,
): CpuReading {
  const spanMs = uptimeMs - before.uptimeMs
  if (spanMs < shortestSpanMs) return before
  const share = (100 * (usedMs - before.usedMs)) / (spanMs * cpuCount)
  return { uptimeMs, usedMs, usedPct: Math.round(Math.min(100, Math.max(0, share)) * 100) / 100 }
}

/** The CPU time of all processes, including ended ones: their parents inherit the sum. */
function cpuTimeMs(): number {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return pids.map((pid) => processTicks(readProc(`${pid}/stat`))).reduce((a, b) => a + b, 0) * tickMs
}

/** User and system time of a process and of its ended children, from its line in /proc. */
export function processTicks(stat: string): number {
  // The name before the last bracket may contain anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields.slice(11, 15).reduce((sum, field) => sum + (Number(field) || 0), 0)
}

/**
 * Shared memory is already counted in the pages of processes. Under runc the driver writes this file every
 * few seconds; gVisor provides its own.
 */
export function memoryUse(meminfo: string): { total: number; used: number; cache: number } {
  const bytes = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(meminfo)?.[1] ?? 0) * 1024
  const total = bytes('MemTotal')
  const used = Math.min(total, bytes('AnonPages'))
  const cache = bytes('Cached') - bytes('Shmem')
  return { total, used, cache: Math.max(0, Math.min(total - used, cache)) }
}

/** A process may end while it is being read. */
function readProc(name: string): string {
  try {
    return readFileSync(`/proc/${name}`, 'latin1')
  } catch {
    return ''
  }
}
