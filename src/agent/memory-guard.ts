/**
 * Under gVisor the host, when a sandbox passes its memory limit, kills the whole sandbox. So the agent
 * watches, and ends the largest process in time. On a Linux kernel of its own the kernel does that itself.
 * The driver sets the host's limit higher by what gVisor itself needs; what grows between two looks uses that margin.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'

/** As a pid: all processes but init and our own. */
export const everybody = -1
const mebibyte = 1024 * 1024
/** This much of the sandbox's memory stays unused. */
const smallestReserve = 12 * mebibyte
const reserveShare = 0.05
/** Once it is passed, so much is freed that use falls below this share. */
const relievedShare = 0.85
/** Looking into a process takes milliseconds that are short then: only the likeliest ones are looked into. */
const mostLookedInto = 4
/** The others are assumed to own this share of the memory that they show. */
const assumedOwnShare = 0.5
/** The fastest that one CPU was seen to take memory, in bytes per millisecond: it sets when to look again. */
const growthPerCpu = 2 * mebibyte
const shortestPauseMs = 10
const longestPauseMs = 500
/**
 * Nothing is known of memory when the first process begins. What can grow until the first look, as a share of the
 * sandbox's memory, is within the margin of the host's limit; a look costs as much as a short command, and should come
 * after its end.
 */
const unseenShare = 0.1
/** For so many looks the memory of ended processes counts as free already: giving it back takes a while. */
const looksUntilFreed = 10
/** Past this share of the sandbox's memory the host is about to end the sandbox. */
const lastShare = 1.25

export type Memory = { totalBytes: number; usedBytes: number }

/** What the guard sees and does; a test brings its own. */
export type SandboxMachine = {
  cpuCount: number
  memory(): Memory
  /** Every process but init and the agent. */
  pids(): number[]
  /** At least the memory of its own that a process holds, with files it maps: quick to learn. */
  residentBytes(pid: number): number
  /** Memory that is given back when the process ends: slow to learn. */
  ownBytes(pid: number): number
  kill(pid: number): void
}

export type MemoryGuardOptions = {
  machine?: SandboxMachine
  /** Told of each process that was ended, and of about how much memory it held. */
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
   * Looks after memory until no process is left; called again for each new one. A look that is due stays due: its time
   * was set by how fast the CPUs can take memory, whoever they work for.
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

  /** Acts if it must, and says in how many milliseconds to look again; undefined when nobody is left. */
  look(): number | undefined {
    const { totalBytes, usedBytes } = this.#machine.memory()
    if (usedBytes > totalBytes * lastShare) return this.#endAll(usedBytes)
    if (this.#leaving.looks-- <= 0) this.#leaving.bytes = 0
    const staying = usedBytes - this.#leaving.bytes
    const headroom = totalBytes - staying - Math.max(smallestReserve, totalBytes * reserveShare)
    const growth = growthPerCpu * this.#machine.cpuCount
    const pauseMs = Math.min(longestPauseMs, Math.max(shortestPauseMs, headroom / growth))
    const isFirstLook = this.#isFirstLook
    this.#isFirstLook = false
    this.#firstPauseMs = Math.max(shortestPauseMs, (totalBytes * unseenShare) / growth)
    // Whether anybody is left is asked only when there is time for it, or nothing else to do.
    if (headroom > 0 && (isFirstLook || pauseMs < longestPauseMs / 10)) return pauseMs
    const pids = this.#machine.pids()
    if (pids.length === 0) return undefined
    if (headroom <= 0) {
      this.#relieve(pids, staying + growth * shortestPauseMs - totalBytes * relievedShare)
    }
    return pauseMs
  }

  /** Several may grow at once: ending one at a time would lose the race. */
  #relieve(pids: number[], wantedBytes: number): void {
    const suspects = largestFirst(pids, (pid) => this.#machine.residentBytes(pid))
    const others = suspects.splice(mostLookedInto)
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
   * It is nearly too late, for looking into anybody too: the sandbox with its files is worth more than all of
   * its processes.
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

/** The sandbox this process runs in. */
function ownMachine(): SandboxMachine {
  return {
    cpuCount: availableParallelism(),
    // What gVisor calls available leaves out the mapped files of the host, which cost the sandbox nothing.
    memory() {
      const text = readFileSync('/proc/meminfo', 'latin1')
      const bytes = (name: string) =>
        Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024
      return {
        totalBytes: bytes('MemTotal'),
        usedBytes: bytes('Active\\(anon\\)') + bytes('Inactive\\(anon\\)'),
      }
    },
    pids() {
      return readdirSync('/proc')
        .map(Number)
        .filter((pid) => pid > 1 && pid !== process.pid)
    },
    residentBytes: showsItHolds,
    // Not readable for the processes of other users, unless the sandbox may trace processes.
    ownBytes(pid) {
      try {
        let kibibytes = 0
        const map = readFileSync(`/proc/${pid}/smaps`, 'latin1')
        for (const match of map.matchAll(/^Anonymous:\s+(\d+)/gm)) kibibytes += Number(match[1])
        return kibibytes * 1024
      } catch {
        return showsItHolds(pid)
      }
    },
    kill(pid) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {}
    },
  }
}

/** What is in memory, but no more than the size of what it can write to. */
function showsItHolds(pid: number): number {
  try {
    const text = readFileSync(`/proc/${pid}/status`, 'latin1')
    const bytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0) * 1024
    return Math.min(bytes('VmRSS'), bytes('VmData'))
  } catch {
    return 0
  }
}
