/**
 * Samples and what can be said about them. A figure is only worth something beside another one of the same
 * run, so contenders take turns: whatever disturbs the machine disturbs all of them.
 */
import { errorText } from '../../src/lib/app-error.ts'
import { delay } from '../../src/lib/clock.ts'

export type Contender = {
  name: string
  /** One try. Gives the duration of each step in milliseconds; cleans up after itself, untimed. */
  sample(): Promise<Record<string, number>>
}

export type Unit = 'ms' | 'MB' | 'kB' | '/s' | '×' | '%' | 'statements'

export type Row = { name: string; unit: Unit; samples: number[]; failures: string[] }

export type Rounds = {
  rounds: number
  signal: AbortSignal
  /** Tries of each contender before the first that counts. */
  warmUps?: number
  /** Pause after each try, for what it left running. */
  pauseMs?: number
  onRound?: (done: number) => void
}

export const rowName = (contender: string, step: string): string => `${contender} · ${step}`
export const stepOf = (name: string): string => name.slice(name.indexOf(' · ') + 3)

/** One try of each contender per round, each round options with another one. */
export async function takeTurns(contenders: readonly Contender[], options: Rounds): Promise<Row[]> {
  const { rounds, signal, warmUps = 1, pauseMs = 200, onRound } = options
  const rows = new Map<string, Row>()
  for (let round = -warmUps; round < rounds; round++) {
    for (let turn = 0; turn < contenders.length; turn++) {
      signal.throwIfAborted()
      await tryOnce(contenders[(turn + round + warmUps) % contenders.length]!, rows)
      await delay(pauseMs, signal)
    }
    // Only their order stays: that of the contenders.
    if (round < 0) for (const row of rows.values()) Object.assign(row, { samples: [], failures: [] })
    onRound?.(round + 1)
  }
  return [...rows.values()].filter(({ samples, failures }) => samples.length + failures.length > 0)
}

async function tryOnce({ name, sample }: Contender, rows: Map<string, Row>): Promise<void> {
  const row = (step: string): Row => {
    const key = rowName(name, step)
    const found = rows.get(key) ?? { name: key, unit: 'ms', samples: [], failures: [] }
    rows.set(key, found)
    return found
  }
  try {
    for (const [step, ms] of Object.entries(await sample())) row(step).samples.push(ms)
  } catch (error) {
    row('failed').failures.push(errorText(error))
  }
}

/** How long the work took, and what came of it. */
export async function timed<T>(work: () => Promise<T>): Promise<[ms: number, result: T]> {
  const start = performance.now()
  const result = await work()
  return [performance.now() - start, result]
}

const ascending = (samples: readonly number[]): number[] => [...samples].sort((a, b) => a - b)

export function median(samples: readonly number[]): number {
  const sorted = ascending(samples)
  const middle = sorted.length / 2
  if (sorted.length === 0) return Number.NaN
  return sorted.length % 2 ? sorted[Math.floor(middle)]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** The nearest rank: always one of the samples, never between two. */
export function percentile(samples: readonly number[], percent: number): number {
  const sorted = ascending(samples)
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN
}

/** Without the given share of the samples at each end. */
export function trimmed(samples: readonly number[], share: number): number[] {
  const cut = Math.floor(samples.length * share)
  return ascending(samples).slice(cut, samples.length - cut)
}
