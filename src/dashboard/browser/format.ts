/** How figures and times are written. Pure, so that a test can hold it. */

/** Each is 1,024 of the one before, as in the settings and in what the server says. */
const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

export function bytes(count: number): string {
  if (!Number.isFinite(count) || count < 1) return '0 B'
  const step = Math.min(Math.floor(Math.log2(count) / 10), units.length - 1)
  const value = count / 1024 ** step
  return `${value >= 100 || step === 0 ? Math.round(value) : value.toFixed(1)} ${units[step]}`
}

/** A size that somebody chose, in MiB: `1 GiB`, not `1.0 GiB`. */
export const mebibytes = (count: number): string => bytes(count * 1024 ** 2).replace('.0 ', ' ')

/** The size of a template's sandboxes; a dash if no build of the template has succeeded. */
export const sizeOf = (cpuCount: number, memoryMB: number): string =>
  cpuCount === 0 ? '–' : `${cpuCount} CPU, ${mebibytes(memoryMB)}`

/** Follows a size. */
export const gpusText = (count = 0): string =>
  count === 0 ? '' : `, ${count} ${count === 1 ? 'GPU' : 'GPUs'}`

export function percent(value: number): string {
  return `${value >= 10 || value === 0 ? Math.round(value) : value.toFixed(1)} %`
}

const spans: [name: string, ms: number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1000],
]

/** The two largest units: `3d 4h`, `12m 5s`, `0s`. */
export function duration(ms: number): string {
  let rest = Math.max(0, ms)
  const parts: string[] = []
  for (const [name, length] of spans) {
    const count = Math.floor(rest / length)
    rest -= count * length
    if (count > 0) parts.push(`${count}${name}`)
    else if (parts.length > 0) break
    if (parts.length === 2) break
  }
  return parts.join(' ') || '0s'
}

/** Like `duration`, with fractions of a second where that is all there is. */
export function shortDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms)
}

export function ago(time: string | number, now: number): string {
  const ms = now - (typeof time === 'number' ? time : Date.parse(time))
  if (ms < 10_000) return 'just now'
  const [first] = duration(ms).split(' ')
  return `${first} ago`
}

const dayAndTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' })
const timeOnly = new Intl.DateTimeFormat(undefined, {
  ...({ hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false } as const),
  fractionalSecondDigits: 3,
})

export const fullTime = (time: string | number): string => dayAndTime.format(new Date(time))
export const clockTime = (time: string | number): string => timeOnly.format(new Date(time))

export const count = (value: number, one: string, many = `${one}s`): string =>
  `${value.toLocaleString('en')} ${value === 1 ? one : many}`

/** What the object store does not have yet. `onlyHere`: of these, what only this machine can use. */
export function waitingText(templates: number, sandboxes: number, onlyHere: number): string {
  if (templates + sandboxes === 0) return 'The object store has everything'
  const counts = [...(templates ? [count(templates, 'template')] : [])]
  if (sandboxes) counts.push(count(sandboxes, 'paused sandbox', 'paused sandboxes'))
  return `${counts.join(', ')}${onlyHere > 0 ? `; ${onlyHere} of them for this machine only` : ''}`
}

/** The value below which this part of the sorted values lies. */
export function quantile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0
}

/** Permissions as `ls` writes them. */
export function permissions(mode: number, type: 'file' | 'directory' | 'symlink' | 'unknown'): string {
  const kind = { file: '-', directory: 'd', symlink: 'l', unknown: '?' }[type]
  const bits = [...'rwxrwxrwx'].map((letter, at) => ((mode >> (8 - at)) & 1 ? letter : '-'))
  return kind + bits.join('')
}

/** Control sequences that set colours, cursor positions and titles of a terminal; a log does not show them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they begin with one
const terminalSequences = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])/g

export const plainText = (text: string): string => text.replace(terminalSequences, '')
