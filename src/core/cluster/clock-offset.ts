/**
 * The difference between a machine's clock and the clock of the database, which all nodes share. Times of sandboxes
 * come from the machines' clocks, so a sandbox that moves to a machine with a wrong clock ends early or late.
 */

/** An answer of the database with its time, and when this machine asked for it and got it. */
type TimedAnswer = { askedAt: number; databaseTime: number; answeredAt: number }

/** A difference up to this is normal, and harmless. */
const tolerableMs = 2000

/**
 * By how many milliseconds this machine's clock is ahead of the database's, or behind if negative. The database read its
 * clock at some time between the question and the answer, so this is the least possible difference: a slow answer
 * does not look like a wrong clock.
 */
export function clockOffsetMs({ askedAt, databaseTime, answeredAt }: TimedAnswer): number {
  if (askedAt > databaseTime) return askedAt - databaseTime
  if (answeredAt < databaseTime) return answeredAt - databaseTime
  return 0
}

/** A sentence for the operator; undefined if the clock is good enough, or if its offset is unknown. */
export function clockProblem(offsetMs: number | undefined): string | undefined {
  if (offsetMs === undefined || Math.abs(offsetMs) <= tolerableMs) return undefined
  const seconds = (Math.abs(offsetMs) / 1000).toFixed(1)
  const direction = offsetMs > 0 ? 'ahead of' : 'behind'
  return (
    `The clock of this machine is ${seconds} s ${direction} the clock of the database, so sandboxes that move here end ` +
    'early or late: let both machines synchronize their clocks (NTP).'
  )
}
