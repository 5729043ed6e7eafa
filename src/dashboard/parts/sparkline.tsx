/** A small curve without axes; the figure beside it is what a screen reader reads. */
import { curvePath } from '../browser/curve.ts'

const width = 72
const height = 22

export function Sparkline({ values, max }: { values: readonly number[]; max: number }) {
  const { line, area } = curvePath(values, max, width, height)
  return (
    <svg
      class="sparkline"
      width={width}
      height={height}
      viewBox={`0 0 ${width} ${height}`}
      aria-hidden="true"
    >
      {area !== '' && <path class="area" d={area} />}
      {line !== '' && <path class="line" d={line} />}
    </svg>
  )
}
