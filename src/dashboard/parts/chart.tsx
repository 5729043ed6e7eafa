/** A chart over time with a cursor; uPlot is loaded with the first one. */
import { useEffect, useRef } from 'preact/hooks'
import type uPlot from 'uplot'
import { theme } from '../browser/theme.ts'
import { timeRange } from '../browser/time-range.ts'
import { tryAgain } from '../browser/try-again.ts'

export type Series = { times: readonly number[]; values: readonly (number | null)[] }

type ChartProps = {
  title: string
  series: Series
  /** The name of a colour of tokens.css. */
  tone: 'cpu' | 'memory' | 'disk' | 'accent'
  /** The top of the chart; left out: what the values need. */
  max?: number
  format: (value: number) => string
  note?: string
}

const height = 136

export function Chart({ title, series, tone, max, format, note }: ChartProps) {
  const container = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | undefined>(undefined)
  const shown = theme.use()
  const data = dataOf(series)
  const latest = useRef(data)
  latest.current = data
  useEffect(() => {
    const element = container.current
    if (!element) return
    let isWanted = true
    const resize = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }))
    void tryAgain(() => import('uplot')).then(({ default: UPlot }) => {
      if (!isWanted) return
      plot.current = new UPlot(optionsOf(element, tone, max, format), latest.current, element)
      resize.observe(element)
    })
    return () => {
      isWanted = false
      resize.disconnect()
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [shown, tone, max])
  useEffect(() => plot.current?.setData(data), [series])
  const last = series.values.findLast((value) => value !== null)
  return (
    <figure
      class="chart"
      aria-label={`${title}: ${last === undefined || last === null ? 'no figures' : format(last)}`}
    >
      <header>
        <b>{title}</b>
        <span class="soft figures">
          {last === undefined || last === null ? 'no figures yet' : format(last)}
          {note && <span class="faint"> {note}</span>}
        </span>
      </header>
      <div class="plot" ref={container} />
    </figure>
  )
}

const dataOf = ({ times, values }: Series): uPlot.AlignedData => [[...times], [...values]]

function optionsOf(
  element: HTMLElement,
  tone: ChartProps['tone'],
  given: number | undefined,
  format: (value: number) => string,
): uPlot.Options {
  const style = getComputedStyle(element)
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim()
  const axis = {
    stroke: colour('text-faint'),
    font: `11px ${colour('font')}`,
    grid: { stroke: colour('line'), width: 1 },
    ticks: { show: false },
  }
  return {
    width: element.clientWidth,
    height,
    padding: [6, 26, 0, 0],
    legend: { show: false },
    cursor: { points: { size: 6 }, drag: { x: false, y: false } },
    scales: {
      x: { range: (plot) => timeRange([...plot.data[0]]) },
      y: { range: (_, __, max) => [0, given ?? Math.max(1, max * 1.15)] },
    },
    axes: [
      { ...axis, size: 30, gap: 10, space: 70, grid: { show: false }, values: (_, all) => timeLabels(all) },
      {
        ...axis,
        size: 62,
        splits: (_, __, ___, max) => [0, max / 2, max],
        values: (_, all) => all.map(format),
      },
    ],
    series: [
      {},
      {
        stroke: colour(tone),
        width: 1.5,
        fill: `${colour(tone)}1f`,
        points: { show: (plot: uPlot) => plot.data[0].length === 1 },
      },
    ],
  } as uPlot.Options
}

const daySeconds = 86_400

/** As much of the time as tells the ticks apart, on one line. */
function timeLabels(ticks: readonly number[]): string[] {
  const step = (ticks[1] ?? 0) - (ticks[0] ?? 0)
  const style: Intl.DateTimeFormatOptions =
    step >= daySeconds
      ? { month: 'short', day: 'numeric' }
      : { hour: '2-digit', minute: '2-digit', hour12: false, ...(step < 60 && { second: '2-digit' }) }
  const format = new Intl.DateTimeFormat(undefined, style)
  return ticks.map((seconds) => format.format(seconds * 1000))
}
