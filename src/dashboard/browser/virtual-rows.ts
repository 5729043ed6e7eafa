/** Which rows of a long list are drawn: those in sight, and a few more on each side. */
type RowWindow = { first: number; last: number; offset: number; height: number }

const spare = 8

export function rowsInSight(
  total: number,
  rowHeight: number,
  scrollTop: number,
  viewHeight: number,
): RowWindow {
  const first = Math.max(0, Math.min(total, Math.floor(scrollTop / rowHeight)) - spare)
  const last = Math.min(total, Math.ceil((scrollTop + viewHeight) / rowHeight) + spare)
  return { first, last, offset: first * rowHeight, height: total * rowHeight }
}
