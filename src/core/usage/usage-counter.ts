/** Counts what teams use, and reads it. Runs are counted from their events, so nothing is lost when a Warren is killed. */
import type { Clock } from '../../lib/clock.ts'
import { type DayUsage, dayMs, dayOf, noAmounts, sumByDay } from './usage.ts'
import type { UsageStore } from './usage-store.ts'

const runsPerStep = 500
/** How long usage is stored. */
const keepDays = 2 * 366
/** After a longer time without a measurement, the time between is not counted as stored. */
const maxStoredMs = 30 * 60_000
const megabyte = 2 ** 20

type TeamBytes = { teamID: string; usedBytes: number }
type Sender = { teamID: string; personID: string | null }

type UsageCounterParts = {
  usage: UsageStore
  clock: Clock
  /** What each team has on the disk of this node now. */
  storedBytes: () => Promise<readonly TeamBytes[]>
}

export class UsageCounter {
  readonly #parts: UsageCounterParts
  /** What sandboxes of this node sent since the last write. */
  #sent: DayUsage[] = []
  #measuredAt: number | undefined

  constructor(parts: UsageCounterParts) {
    this.#parts = parts
  }

  noteSent(sender: Sender, sentBytes: number): void {
    if (sentBytes > 0) this.#sent.push({ ...noAmounts, ...this.#today(), ...sender, sentBytes })
  }

  /** Counts finished runs, and writes what was noted. */
  async count(): Promise<void> {
    const { usage } = this.#parts
    while ((await usage.countFinishedRuns(runsPerStep)) === runsPerStep);
    const sent = this.#sent
    this.#sent = []
    try {
      if (sent.length > 0) await usage.add(sent)
    } catch (error) {
      // The database may be away for hours: one entry for each day, team and person is enough.
      this.#sent = sumByDay([...sent, ...this.#sent])
      throw error
    }
  }

  /** Counts what teams have stored since the last measurement. */
  async measureStored(): Promise<void> {
    const { usage, clock, storedBytes } = this.#parts
    const now = clock.now()
    const forMs = this.#measuredAt === undefined ? 0 : now - this.#measuredAt
    const stored = await storedBytes()
    this.#measuredAt = now
    if (forMs <= 0 || forMs > maxStoredMs) return
    const day = this.#today()
    await usage.add(
      stored.map(({ teamID, usedBytes }) => {
        const storedMBMs = (usedBytes / megabyte) * forMs
        return { ...noAmounts, ...day, teamID, personID: null, storedMBMs }
      }),
    )
  }

  /** Both days are inclusive. Without a team: all teams. */
  read(teamID: string | undefined, firstDay: string, lastDay: string): Promise<DayUsage[]> {
    const { usage, clock } = this.#parts
    return usage.read({ ...(teamID !== undefined && { teamID }), firstDay, lastDay, now: clock.now() })
  }

  prune(): Promise<void> {
    const { usage, clock } = this.#parts
    return usage.prune(dayOf(clock.now() - keepDays * dayMs))
  }

  #today(): Pick<DayUsage, 'day'> {
    return { day: dayOf(this.#parts.clock.now()) }
  }
}
