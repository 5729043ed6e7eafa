/**
 * Under gVisor the host, when a sandbox passes its memory limit, kills the whole sandbox. So the agent
 * watches, and ends the largest process in time. On a Linux kernel of its own the kernel does that itself.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { release } from 'node:os'

const mebibyte = 1024 * 1024
/** How much less than everything may be used, before the largest process has to go. */
const smallestReserve = 48 * mebibyte
const reserveShare = 0.1
/** The fastest that memory was seen to be taken, in bytes per millisecond: it sets when to look again. */
const fastestGrowth = 2 * mebibyte
const shortestPauseMs = 20
const longestPauseMs = 500

export type Memory = { totalBytes: number; availableBytes: number }
export type ProcessSize = { pid: number; residentBytes: number }

/** What the guard sees and does; a test brings its own. */
export type Machine = {
  memory(): Memory
  /** Every process but init and the agent. */
  processes(): ProcessSize[]
  kill(pid: number): void
}

export function needsMemoryGuard(): boolean {
  return release().endsWith('-gvisor')
}

export class MemoryGuard {
  #machine: Machine
  #timer: NodeJS.Timeout | undefined

  constructor(machine: Machine = ownMachine) {
    this.#machine = machine
  }

  /** Looks after memory until no process is left; called again for each new one. */
  watch(): void {
    if (this.#timer === undefined) this.#lookAfter(shortestPauseMs)
  }

  #lookAfter(pauseMs: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      const next = this.look()
      if (next !== undefined) this.#lookAfter(next)
    }, pauseMs)
  }

  /** Acts if it must, and says in how many milliseconds to look again; undefined when nobody is left. */
  look(): number | undefined {
    const { totalBytes, availableBytes } = this.#machine.memory()
    const headroom = availableBytes - Math.max(smallestReserve, totalBytes * reserveShare)
    if (headroom > 0 && headroom / fastestGrowth < longestPauseMs / 4) return this.#pause(headroom)
    const processes = this.#machine.processes()
    if (processes.length === 0) return undefined
    if (headroom > 0) return this.#pause(headroom)
    const largest = processes.reduce((a, b) => (b.residentBytes > a.residentBytes ? b : a))
    this.#machine.kill(largest.pid)
    return shortestPauseMs
  }

  #pause(headroom: number): number {
    return Math.min(longestPauseMs, Math.max(shortestPauseMs, headroom / fastestGrowth))
  }
}

const ownMachine: Machine = {
  memory() {
    const text = readFileSync('/proc/meminfo', 'latin1')
    const bytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024
    return { totalBytes: bytes('MemTotal'), availableBytes: bytes('MemAvailable') }
  },
  processes() {
    return readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 1 && pid !== process.pid)
      .map((pid) => ({ pid, residentBytes: residentBytes(pid) }))
  },
  kill(pid) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {}
  },
}

function residentBytes(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')[1]) * 4096
  } catch {
    return 0
  }
}
