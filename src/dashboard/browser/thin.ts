/** Evenly fewer values, the last one among them. */
export function thinned<T>(values: readonly T[], most: number): readonly T[] {
  if (values.length <= most) return values
  const step = (values.length - 1) / (most - 1)
  return Array.from({ length: most }, (_, at) => values[Math.round(at * step)]!)
}
