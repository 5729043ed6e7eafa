/**
 * How often a test repeats what only shows after many times: seldom in every run, so that the test itself is proved,
 * and often in `npm run test:long`.
 */
export const countOf = ({ short, long }: { short: number; long: number }): number =>
  process.env.WARREN_TEST_LONG ? long : short
