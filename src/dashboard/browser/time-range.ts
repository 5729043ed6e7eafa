/** The part of time that a chart shows, in seconds. */
const minSeconds = 60

/** From the first sample to the last, and a minute at the least. For one sample alone uPlot would suggest years. */
export function timeRange(times: readonly number[]): [number | null, number | null] {
  const [first, last] = [times[0], times.at(-1)]
  if (first === undefined || last === undefined) return [null, null]
  return [Math.min(first, last - minSeconds), last]
}
