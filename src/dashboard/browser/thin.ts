/** Evenly fewer values, the last one among them. */
export function thinned<T>(values: readonly T[], max: number): readonly T[] {
  if (values.length <= max) return values
  const step = (values.length - 1) / (max - 1)
  return Array.from({ length: max }, (_, at) => values[Math.round(at * step)]!)
}
