/**
 * Draws what was measured last as an SVG: `bin/node test/bench/chart.ts FILE`. Colours are its own, on a light card, so
 * that it reads the same on a light and on a dark page.
 */
import { writeFileSync } from 'node:fs'
import { type KeptReport, machineText, medianOf, previousReport } from './report.ts'

type Bar = { label: string; row: string }
type Panel = { title: string; report: string; bars: Bar[] }

const life = 'create + first command'
const lastOfHundred = 'burst of 100, until the last has answered'
const commit = 'git init, add and commit'

const panels: Panel[] = [
  {
    title: 'Create a sandbox and run a first command',
    report: 'sandboxes',
    bars: [
      { label: 'Warren, containers', row: `warren container · ${life}` },
      { label: 'Warren, gVisor', row: `warren gvisor · ${life}` },
      { label: 'Warren, containers, no warm pool', row: `warren container, cold · ${life}` },
      { label: 'Warren, gVisor, no warm pool', row: `warren gvisor, cold · ${life}` },
      { label: 'docker run', row: 'docker · run --rm node -v, first output' },
      { label: 'podman run', row: 'podman · run --rm node -v, first output' },
    ],
  },
  {
    title: 'Run a command in a living sandbox',
    report: 'commands',
    bars: [
      { label: 'Warren, containers', row: 'warren container · echo' },
      { label: 'Warren, gVisor', row: 'warren gvisor · echo' },
      { label: 'docker exec', row: 'docker exec · echo' },
      { label: 'podman exec', row: 'podman exec · echo' },
    ],
  },
  {
    title: 'Create 100 sandboxes at once, until the last has answered',
    report: 'interactive',
    bars: [
      { label: 'Warren, containers', row: `warren container · ${lastOfHundred}` },
      { label: 'Warren, gVisor', row: `warren gvisor · ${lastOfHundred}` },
      { label: 'docker run', row: `docker · ${lastOfHundred}` },
    ],
  },
  {
    title: 'git add and commit inside',
    report: 'jobs',
    bars: [
      { label: 'the machine itself', row: `host · ${commit}` },
      { label: 'Warren, containers', row: `warren container · ${commit}` },
      { label: 'Warren, gVisor', row: `warren gvisor · ${commit}` },
    ],
  },
]

const [width, labelWidth, valueWidth, barHeight, gap] = [760, 250, 90, 18, 8]
const colours = { warren: '#2f6fde', others: '#9aa3b2', text: '#1f2430', quiet: '#5b6472', card: '#f7f8fa' }

export function chartSvg(reportOf: (name: string) => KeptReport | undefined): string {
  const parts: string[] = []
  const used: KeptReport[] = []
  let y = 24
  for (const panel of panels) {
    const kept = reportOf(panel.report)
    const drawn = kept ? drawPanel(panel, kept, y) : undefined
    if (!drawn) continue
    used.push(kept!)
    parts.push(drawn.svg)
    y = drawn.end + 22
  }
  const caption = used[0] ? `Medians, less is better. ${captionOf(used)}` : 'Nothing was measured yet.'
  parts.push(text(16, y, caption, colours.quiet, 11))
  const height = y + 16
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, -apple-system, 'Segoe UI', sans-serif" role="img" aria-label="Warren beside Docker and podman">
<rect width="${width}" height="${height}" rx="8" fill="${colours.card}"/>
${parts.join('\n')}
</svg>
`
}

function captionOf(used: readonly KeptReport[]): string {
  const dates = used.map(({ date }) => date.slice(0, 10)).sort()
  const [first, last] = [dates[0]!, dates.at(-1)!]
  return `${first === last ? first : `${first} to ${last}`}, ${machineText(used[0]!.machine)}.`
}

function drawPanel({ title, bars }: Panel, { report }: KeptReport, top: number) {
  const found = bars
    .map(({ label, row }) => ({ label, ms: medianOf(report, row) }))
    .filter(({ ms }) => Number.isFinite(ms))
  if (found.length < 2) return undefined
  const longest = Math.max(...found.map(({ ms }) => ms))
  const room = width - labelWidth - valueWidth - 16
  const lines = found.map(({ label, ms }, index) => {
    const y = top + 14 + index * (barHeight + gap)
    const long = Math.max(2, (ms / longest) * room).toFixed(1)
    const colour = label.startsWith('Warren') ? colours.warren : colours.others
    return [
      text(16, y + 13, label, colours.text, 12),
      `<rect x="${labelWidth}" y="${y}" width="${long}" height="${barHeight}" rx="3" fill="${colour}"/>`,
      text(labelWidth + Number(long) + 8, y + 13, figure(ms), colours.text, 12),
    ].join('\n')
  })
  const end = top + 14 + found.length * (barHeight + gap)
  return { svg: [text(16, top, title, colours.text, 14, true), ...lines].join('\n'), end }
}

function text(x: number, y: number, words: string, fill: string, size: number, bold = false): string {
  const weight = bold ? ' font-weight="600"' : ''
  return `<text x="${x.toFixed(0)}" y="${y}" fill="${fill}" font-size="${size}"${weight}>${words}</text>`
}

const figure = (ms: number): string =>
  ms >= 5000 ? `${(ms / 1000).toFixed(1)} s` : `${ms.toFixed(ms < 10 ? 1 : 0)} ms`

if (import.meta.main) {
  const [file] = process.argv.slice(2)
  if (!file) throw new Error('Say which file to write: bin/node test/bench/chart.ts FILE')
  writeFileSync(file, chartSvg(previousReport))
}
