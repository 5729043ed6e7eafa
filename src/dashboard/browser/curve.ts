/** A row of values as a path of SVG over the whole width, the newest at the right edge. */
const pad = 1.5
const maxPoints = 36

export function curvePath(
  values: readonly number[],
  max: number,
  width: number,
  height: number,
): { line: string; area: string } {
  const shown = values.slice(-maxPoints)
  if (shown.length === 0) return { line: '', area: '' }
  // One value alone is a level line.
  const ends = shown.length === 1 ? [shown[0]!, shown[0]!] : shown
  const step = width / (ends.length - 1)
  const points = ends.map((value, at) => {
    const part = max > 0 ? Math.min(1, Math.max(0, value / max)) : 0
    return [round(at * step), round(height - pad - part * (height - 2 * pad))] as const
  })
  const line = `M${points.map(([x, y]) => `${x} ${y}`).join('L')}`
  return { line, area: `${line}L${width} ${height}L0 ${height}Z` }
}

const round = (value: number): number => Math.round(value * 10) / 10
