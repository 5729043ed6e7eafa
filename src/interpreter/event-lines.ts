/** Splits the output of a kernel into its events. */
import type { Readable } from 'node:stream'

export type KernelEvent =
  | { type: 'ready' | 'done' }
  | { type: 'failed'; reason: string }
  | { type: 'started'; count: number }
  | { type: 'result'; main: boolean; data: Record<string, unknown> }
  | { type: 'error'; name: string; value: string; traceback: string }

/** A result with a picture or a table of many megabytes fits; a kernel that sends more is broken. */
const largestEvent = 128 * 1024 * 1024

/** `onBroken` is called at most once, and no event follows it. */
export function readEvents(
  source: Readable,
  onEvent: (event: KernelEvent) => void,
  onBroken: () => void,
): void {
  let parts: Buffer[] = []
  let size = 0
  let isBroken = false
  const breakOff = () => {
    if (isBroken) return
    isBroken = true
    parts = []
    onBroken()
  }
  source.on('data', (chunk: Buffer) => {
    for (let from = 0; from < chunk.length && !isBroken; ) {
      const at = chunk.indexOf(10, from)
      const part = chunk.subarray(from, at < 0 ? chunk.length : at)
      parts.push(part)
      size += part.length
      if (size > largestEvent) return breakOff()
      if (at < 0) return
      const event = parse(Buffer.concat(parts, size).toString())
      parts = []
      size = 0
      if (!event) return breakOff()
      onEvent(event)
      from = at + 1
    }
  })
  source.on('error', () => {})
}

function parse(line: string): KernelEvent | undefined {
  try {
    const event = (hasNumbers(line) ? JSON.parse(line, keepNumber) : JSON.parse(line)) as KernelEvent
    return typeof event?.type === 'string' ? event : undefined
  } catch {
    return undefined
  }
}

/** Only data behind charts and tables, and JSON, bring numbers to the client. */
const hasNumbers = (line: string): boolean => line.includes('"e2b/') || line.includes('"application/json"')

/** Python tells 1.0 from 1, and so do its clients. `JSON.stringify` writes what this returns as the text that it was. */
function keepNumber(_name: string, value: unknown, { source }: { source?: string } = {}): unknown {
  return typeof value === 'number' && source !== undefined && String(value) !== source
    ? rawJSON(source)
    : value
}

/** Part of V8, but not yet of TypeScript's description of it. */
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown }
