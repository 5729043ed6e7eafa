/**
 * How often a test repeats what only shows after many times: seldom in every run, so that the test itself is proved,
 * and often in `npm run test:long`.
 */
export type RunCounts = { short: number; long: number }

export const countOf = ({ short, long }: RunCounts): number => (process.env.WARREN_TEST_LONG ? long : short)

/** Random moments in milliseconds, one in each of equal parts of the given time, so that none of it is left out. */
export function momentsOf(counts: RunCounts, withinMs: number): number[] {
  const count = countOf(counts)
  return Array.from({ length: count }, (_, at) => Math.round(((at + Math.random()) / count) * withinMs))
}
