/** A row of values as a path of SVG, the newest at the right edge. */
const pad = 1.5
const mostPoints = 36

export function curvePath(
  values: readonly number[],
  most: number,
  width: number,
  height: number,
): { line: string; area: string } {
  const shown = values.slice(-mostPoints)
  if (shown.length === 0) return { line: '', area: '' }
  const step = width / (mostPoints - 1)
  const points = shown.map((value, at) => {
    const part = most > 0 ? Math.min(1, Math.max(0, value / most)) : 0
    const x = width - (shown.length - 1 - at) * step
    return [round(x), round(height - pad - part * (height - 2 * pad))] as const
  })
  if (points.length === 1) points.unshift([round(width - step), points[0]![1]])
  const line = `M${points.map(([x, y]) => `${x} ${y}`).join('L')}`
  return { line, area: `${line}L${width} ${height}L${points[0]![0]} ${height}Z` }
}

const round = (value: number): number => Math.round(value * 10) / 10
