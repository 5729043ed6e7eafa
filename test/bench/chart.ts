/**
 * Draws what was measured last as an SVG: `bin/node test/bench/chart.ts FILE`. It has a background of its own, light or
 * dark as its reader prefers, so that it reads the same on any page. Bars begin at zero; each panel has its own scale.
 */
import { writeFileSync } from 'node:fs'
import { percentile } from './measure.ts'
import { machineText, medianOf, previousReport, type SavedReport } from './report.ts'

type Kind = 'container' | 'gvisor' | 'other'
type Bar = { label: string; row: string; kind: Kind }
/** `versus`: the label of the bar that the others are divided by. */
type Panel = { title: string; report: string; versus: string; bars: Bar[] }

const life = 'create + first command'
const lastOfHundred = 'burst of 100, until the last has answered'
const commit = 'git init, add and commit'
const forkOfTen = 'fork of 10'

const container = (label: string, row: string): Bar => ({ label, row, kind: 'container' })
const gvisor = (label: string, row: string): Bar => ({ label, row, kind: 'gvisor' })
const other = (label: string, row: string): Bar => ({ label, row, kind: 'other' })

const panels: Panel[] = [
  {
    title: 'Create a sandbox and run its first command',
    report: 'sandboxes',
    versus: 'docker run',
    bars: [
      container('Warren, containers', `warren container · ${life}`),
      gvisor('Warren, gVisor', `warren gvisor · ${life}`),
      container('Warren, containers, cold', `warren container, cold · ${life}`),
      gvisor('Warren, gVisor, cold', `warren gvisor, cold · ${life}`),
      other('docker run', 'docker · run --rm node -v, first output'),
      other('podman run', 'podman · run --rm node -v, first output'),
    ],
  },
  {
    title: 'Run a command in a living sandbox',
    report: 'commands',
    versus: 'docker exec',
    bars: [
      container('Warren, containers', 'warren container · echo'),
      gvisor('Warren, gVisor', 'warren gvisor · echo'),
      other('runc exec', 'raw runc exec · echo'),
      other('runsc exec', 'raw runsc exec · echo'),
      other('docker exec', 'docker exec · echo'),
      other('podman exec', 'podman exec · echo'),
    ],
  },
  {
    title: '100 creates at once, until the last has answered',
    report: 'interactive',
    versus: 'docker run',
    bars: [
      container('Warren, containers', `warren container · ${lastOfHundred}`),
      gvisor('Warren, gVisor', `warren gvisor · ${lastOfHundred}`),
      other('docker run', `docker · ${lastOfHundred}`),
    ],
  },
  {
    title: 'One create each 200 ms, until it has answered',
    report: 'interactive',
    versus: 'docker run',
    bars: [
      container('Warren, containers', 'warren container · staggered'),
      gvisor('Warren, gVisor', 'warren gvisor · staggered'),
      other('docker run', 'docker · staggered'),
    ],
  },
  {
    title: 'Fork a running sandbox into ten, 100 MB in use',
    report: 'pauses',
    versus: 'runsc by hand',
    bars: [
      gvisor('Warren, gVisor', `warren gvisor, 100 MB · ${forkOfTen}`),
      other('runsc by hand', `raw runsc, 100 MB · ${forkOfTen}`),
    ],
  },
  {
    title: 'git add and commit inside',
    report: 'jobs',
    versus: 'the machine itself',
    bars: [
      other('the machine itself', `host · ${commit}`),
      container('Warren, containers', `warren container · ${commit}`),
      gvisor('Warren, gVisor', `warren gvisor · ${commit}`),
    ],
  },
]

const columns = 2
const margin = 24
const columnGap = 36
const panelGap = 30
const panelWidth = 424
const labelWidth = 152
const valueWidth = 112
const barHeight = 14
const barGap = 8
const titleHeight = 20
const width = 2 * margin + columns * panelWidth + (columns - 1) * columnGap
const headHeight = 74

const style = `
text { font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; fill: #24292f }
.title { font-size: 18px; font-weight: 600 } .panel { font-size: 13px; font-weight: 600 }
.quiet { font-size: 11px; fill: #57606a } .value { font-variant-numeric: tabular-nums; font-weight: 600 }
.card { fill: #ffffff; stroke: #d0d7de } .axis { stroke: #8c959f } .spread { stroke: #24292f; opacity: .45 }
.container { fill: #0969da } .gvisor { fill: #1a7f64 } .other { fill: #afb8c1 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .quiet { fill: #9198a1 } .card { fill: #0d1117; stroke: #3d444d }
  .axis { stroke: #656c76 } .spread { stroke: #e6edf3 }
  .container { fill: #4493f8 } .gvisor { fill: #3fb68b } .other { fill: #59636e }
}`

export function chartSvg(reportOf: (name: string) => SavedReport | undefined): string {
  const drawn = panels.flatMap((panel) => {
    const saved = reportOf(panel.report)
    const bars = saved ? foundBars(panel, saved) : []
    return saved && bars.length > 1 ? [{ panel, saved, bars }] : []
  })
  const parts: string[] = []
  let top = headHeight
  for (let first = 0; first < drawn.length; first += columns) {
    const line = drawn.slice(first, first + columns)
    line.forEach(({ panel, bars }, column) => {
      parts.push(drawPanel(panel, bars, margin + column * (panelWidth + columnGap), top))
    })
    top += titleHeight + Math.max(...line.map(({ bars }) => bars.length)) * (barHeight + barGap) + panelGap
  }
  const height = top + 4
  const used = drawn.map(({ saved }) => saved)
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="How long Warren takes, beside Docker, podman and the bare runtimes">
<style>${style}</style>
<rect class="card" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
${text(margin, 34, 'How long Warren takes, and what others take on the same machine', 'title')}
${text(margin, 54, used.length > 0 ? captionOf(used) : 'Nothing was measured yet.', 'quiet')}
${parts.join('\n')}
${text(margin, height - 16, footnote, 'quiet')}
</svg>
`
}

const footnote =
  'Medians, less is better; the thin line reaches the 95th percentile. Bars begin at zero, each panel has its own scale. Cold: without the warm pool.'

function captionOf(used: readonly SavedReport[]): string {
  const dates = used.map(({ date }) => date.slice(0, 10)).sort()
  const [first, last] = [dates[0]!, dates.at(-1)!]
  const peers = used.flatMap(({ report }) => report.peers ?? [])
  return [first === last ? first : `${first} to ${last}`, machineText(used[0]!.machine), ...peers].join(' · ')
}

type FoundBar = Bar & { ms: number; p95: number }

function foundBars({ bars }: Panel, { report }: SavedReport): FoundBar[] {
  return bars.flatMap((bar) => {
    const ms = medianOf(report, bar.row)
    const samples = report.rows.find(({ name }) => name === bar.row)?.samples ?? []
    return Number.isFinite(ms) ? [{ ...bar, ms, p95: percentile(samples, 95) }] : []
  })
}

function drawPanel({ title, versus }: Panel, bars: FoundBar[], x: number, top: number): string {
  const longest = Math.max(...bars.map(({ p95 }) => p95))
  const start = x + labelWidth
  const scale = (ms: number): number => (ms / longest) * (panelWidth - labelWidth - valueWidth)
  const base = bars.find(({ label }) => label === versus)?.ms
  const lines = bars.flatMap(({ label, ms, p95, kind }, index) => {
    const y = top + titleHeight + index * (barHeight + barGap)
    const middle = y + barHeight / 2
    const ratio = base === undefined || label === versus ? '' : `(${ratioText(ms / base)})`
    const far = start + scale(p95)
    return [
      text(x, y + 11, label),
      `<rect class="${kind}" x="${start}" y="${y}" width="${Math.max(1.5, scale(ms)).toFixed(1)}" height="${barHeight}" rx="2"/>`,
      `<path class="spread" d="M${(start + scale(ms)).toFixed(1)} ${middle}H${far.toFixed(1)}"/>`,
      `<text class="value" x="${(far + 7).toFixed(1)}" y="${y + 11}">${figure(ms)}<tspan class="quiet" dx="5">${ratio}</tspan></text>`,
    ]
  })
  const bottom = top + titleHeight + bars.length * (barHeight + barGap) - barGap + 3
  const axis = `<path class="axis" d="M${start - 0.5} ${top + titleHeight - 3}V${bottom}"/>`
  return [text(x, top + 6, title, 'panel'), ...lines, axis].join('\n')
}

const ratioText = (ratio: number): string => `${ratio < 0.1 ? ratio.toFixed(3) : ratio.toFixed(2)} ×`

function text(x: number, y: number, words: string, kind?: string): string {
  return `<text${kind ? ` class="${kind}"` : ''} x="${x}" y="${y}">${words}</text>`
}

const figure = (ms: number): string =>
  ms >= 5000 ? `${(ms / 1000).toFixed(1)} s` : `${ms.toFixed(ms < 10 ? 1 : 0)} ms`

if (import.meta.main) {
  const [file] = process.argv.slice(2)
  if (!file) throw new Error('Say which file to write: bin/node test/bench/chart.ts FILE')
  writeFileSync(file, chartSvg(previousReport))
}
