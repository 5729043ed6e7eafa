/**
 * Chooses the host CPUs that each sandbox may run on: the least used ones, so that `nproc` shows the
 * sandbox's own number.
 */
import { readFileSync } from 'node:fs'

export class CpuShares {
  readonly #cpus: number[]
  /** By run: a second sandbox with the same ID must not replace the first. */
  readonly #reserved = new Map<string, number[]>()

  constructor(cpus: number[]) {
    this.#cpus = cpus
  }

  /** Null if the sandbox may use all CPUs. */
  reserve(runID: string, count: number): string | null {
    if (count >= this.#cpus.length) return null
    const load = this.#load()
    const chosen = [...this.#cpus].sort((a, b) => load.get(a)! - load.get(b)! || a - b).slice(0, count)
    this.#reserved.set(runID, chosen)
    return chosen.sort((a, b) => a - b).join(',')
  }

  adopt(runID: string, cpus: string | null): void {
    if (cpus) this.#reserved.set(runID, parseCpuList(cpus))
  }

  release(runID: string): void {
    this.#reserved.delete(runID)
  }

  #load(): Map<number, number> {
    const load = new Map(this.#cpus.map((cpu) => [cpu, 0]))
    for (const cpu of [...this.#reserved.values()].flat()) load.set(cpu, (load.get(cpu) ?? 0) + 1)
    return load
  }
}

/** The kernel's notation of lists: `0-3,8`. */
export function parseCpuList(text: string): number[] {
  return text
    .trim()
    .split(',')
    .filter(Boolean)
    .flatMap((part) => {
      const [first, last = first] = part.split('-').map(Number)
      return Array.from({ length: last! - first! + 1 }, (_, i) => first! + i)
    })
}

export function usableCpus(): number[] {
  const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  return parseCpuList(list ?? '0')
}
