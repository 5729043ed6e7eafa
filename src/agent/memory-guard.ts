/**
 * Under gVisor, the host kills the whole sandbox when it exceeds its memory limit. So the agent watches, and
 * kills the largest process in time. A sandbox on a Linux kernel needs no guard: the kernel does that itself.
 * The driver sets the host's limit higher by the memory that gVisor itself needs; growth between two checks
 * uses that margin.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { systemClock } from '../lib/clock.ts'
import { processStart } from '../lib/process-start.ts'

/** As a pid: all processes but init and our own. */
export const everybody = -1
const mebibyte = 1024 * 1024
/** This much of the sandbox's memory stays unused. */
const smallestReserve = 12 * mebibyte
const reserveShare = 0.05
/** When the limit is exceeded, enough is freed that use falls below this share. */
const relievedShare = 0.85
/** Examining a process takes milliseconds that are precious then: only the likeliest ones are examined. */
const maxLookedInto = 4
/** The others are assumed to own this share of their visible memory. */
const assumedOwnShare = 0.5
/** The fastest growth seen on one CPU, in bytes per millisecond: it determines the time of the next check. */
const growthPerCpu = 2 * mebibyte
const shortestPauseMs = 10
const longestPauseMs = 500
/**
 * Memory use is unknown when the first process begins. The growth until the first check, as a share of the
 * sandbox's memory, is within the margin of the host's limit; a check costs as much as a short command, and
 * should come after its end.
 */
const unseenShare = 0.1
/** For this many checks the memory of killed processes counts as free already: returning it takes a while. */
const looksUntilFreed = 10
/** Beyond this share of the sandbox's memory the host is about to kill the sandbox. */
const lastShare = 1.25
/** `native/gpu-checkpoint.c` keeps a file with this name and the id of a process while the host has its GPU memory. */
const gpuMark = 'gpu-memory-'
/** It writes this one when the memory is back; returning it to the sandbox takes a while. */
const gpuFreedMark = '/dev/gpu-memory-freed'
const gpuFreedWithinMs = 2000
/** Time until the next check while GPU memory is in the sandbox's memory. */
const gpuPauseMs = 100

type Memory = { totalBytes: number; usedBytes: number }

/** The guard's view of the sandbox; a test provides its own. */
export type SandboxMachine = {
  cpuCount: number
  memory(): Memory
  /** A snapshot with GPU memory is being written or read: the driver has raised the host's limit meanwhile. */
  holdsGpuMemory(): boolean
  /** Every process but init and the agent. */
  pids(): number[]
  /** An upper bound for the own memory of a process, including mapped files: quick to read. */
  residentBytes(pid: number): number
  /** Memory that is freed when the process ends: slow to read. */
  ownBytes(pid: number): number
  kill(pid: number): void
}

type MemoryGuardOptions = {
  machine?: SandboxMachine
  /** Called for each killed process with its approximate memory. */
  onKill?: (pid: number, bytes: number) => void
}

export class MemoryGuard {
  #machine: SandboxMachine
  #onKill: (pid: number, bytes: number) => void
  #timer: NodeJS.Timeout | undefined
  #leaving = { bytes: 0, looks: 0 }
  #firstPauseMs = shortestPauseMs
  #isFirstLook = false

  constructor({ machine = ownMachine(), onKill = () => {} }: MemoryGuardOptions = {}) {
    this.#onKill = onKill
    this.#machine = machine
  }

  /**
   * Watches memory until no process is left; called again for each new one. A pending check stays pending:
   * its time was set by how fast the CPUs can take memory, for any process.
   */
  watch(): void {
    if (this.#timer) return
    this.#isFirstLook = true
    this.#lookIn(this.#firstPauseMs)
  }

  #lookIn(pauseMs: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      const next = this.look()
      if (next !== undefined) this.#lookIn(next)
    }, pauseMs)
  }

  /**
   * Acts if necessary, and returns the milliseconds until the next check; undefined if no process is left.
   */
  look(): number | undefined {
    const { totalBytes, usedBytes } = this.#machine.memory()
    if (usedBytes > totalBytes * lastShare) {
      return this.#machine.holdsGpuMemory() ? gpuPauseMs : this.#endAll(usedBytes)
    }
    if (this.#leaving.looks-- <= 0) this.#leaving.bytes = 0
    const staying = usedBytes - this.#leaving.bytes
    const headroom = totalBytes - staying - Math.max(smallestReserve, totalBytes * reserveShare)
    const growth = growthPerCpu * this.#machine.cpuCount
    const pauseMs = Math.min(longestPauseMs, Math.max(shortestPauseMs, headroom / growth))
    const isFirstLook = this.#isFirstLook
    this.#isFirstLook = false
    this.#firstPauseMs = Math.max(shortestPauseMs, (totalBytes * unseenShare) / growth)
    // Lists the processes only if there is time for it, or nothing else to do.
    if (headroom > 0 && (isFirstLook || pauseMs < longestPauseMs / 10)) return pauseMs
    const pids = this.#machine.pids()
    if (pids.length === 0) return undefined
    if (headroom <= 0) {
      if (this.#machine.holdsGpuMemory()) return gpuPauseMs
      this.#relieve(pids, staying + growth * shortestPauseMs - totalBytes * relievedShare)
    }
    return pauseMs
  }

  /** Kills several if needed: many may grow at once, and one at a time would lose the race. */
  #relieve(pids: number[], wantedBytes: number): void {
    const suspects = largestFirst(pids, (pid) => this.#machine.residentBytes(pid))
    const others = suspects.splice(maxLookedInto)
    const known = largestFirst(
      suspects.map(({ pid }) => pid),
      (pid) => this.#machine.ownBytes(pid),
    )
    let freed = 0
    const ended: { pid: number; bytes: number }[] = []
    for (const one of [...known, ...others.map(assumed)]) {
      if (freed >= wantedBytes) break
      this.#machine.kill(one.pid)
      freed += one.bytes
      ended.push(one)
    }
    for (const { pid, bytes } of ended) this.#onKill(pid, bytes)
    this.#leaving = { bytes: this.#leaving.bytes + freed, looks: looksUntilFreed }
  }

  /**
   * Ends all processes at once, because there is no time left to examine them. The sandbox and its files are worth more
   * than its processes.
   */
  #endAll(usedBytes: number): number {
    this.#machine.kill(everybody)
    this.#onKill(everybody, usedBytes)
    return shortestPauseMs
  }
}

function assumed({ pid, bytes }: { pid: number; bytes: number }) {
  return { pid, bytes: bytes * assumedOwnShare }
}

function largestFirst(pids: number[], size: (pid: number) => number): { pid: number; bytes: number }[] {
  return pids.map((pid) => ({ pid, bytes: size(pid) })).sort((a, b) => b.bytes - a.bytes)
}

/** The sandbox in which this process runs. */
function ownMachine(): SandboxMachine {
  return {
    cpuCount: availableParallelism(),
    // gVisor's value for available memory excludes the host's mapped files, which cost the sandbox nothing.
    memory() {
      const text = readFileSync('/proc/meminfo', 'latin1')
      const bytes = (name: string) =>
        Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024
      return {
        totalBytes: bytes('MemTotal'),
        usedBytes: bytes('Active\\(anon\\)') + bytes('Inactive\\(anon\\)'),
      }
    },
    holdsGpuMemory() {
      const marks = readdirSync('/dev').filter((name) => name.startsWith(gpuMark))
      if (marks.length === 0) return false
      // A process that died meanwhile has left its mark behind.
      if (marks.some((name) => processStart(Number(name.slice(gpuMark.length))) !== undefined)) return true
      const freedAt = statSync(gpuFreedMark, { throwIfNoEntry: false })?.mtimeMs ?? 0
      return Math.abs(systemClock.now() - freedAt) < gpuFreedWithinMs
    },
    pids() {
      return readdirSync('/proc')
        .map(Number)
        .filter((pid) => pid > 1 && pid !== process.pid)
    },
    residentBytes: gpuScoreOf,
    // Unreadable for processes of other users, unless the sandbox may trace processes.
    ownBytes(pid) {
      try {
        let kibibytes = 0
        const map = readFileSync(`/proc/${pid}/smaps`, 'latin1')
        for (const match of map.matchAll(/^Anonymous:\s+(\d+)/gm)) kibibytes += Number(match[1])
        return kibibytes * 1024
      } catch {
        return gpuScoreOf(pid)
      }
    },
    kill(pid) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {}
    },
  }
}

/** The memory in use, but no more than the size of the writable mappings. */
function gpuScoreOf(pid: number): number {
  try {
    const text = readFileSync(`/proc/${pid}/status`, 'latin1')
    const bytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024
    return Math.min(bytes('VmRSS'), bytes('VmData'))
  } catch {
    return 0
  }
}
