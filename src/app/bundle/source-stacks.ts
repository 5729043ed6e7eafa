/**
 * Makes stack traces name lines of the sources instead of lines of the bundle. Node could do this itself, but
 * would read all source maps at every start; here the first error whose stack is read loads the maps that it
 * needs, which takes a tenth of a second and 25 MB.
 */
import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'

const folder = new URL('./', import.meta.url).href
const position = /file:\S+\/([\w-]+\.mjs):(\d+):(\d+)/g
const maps = new Map<string, SourceMap | undefined>()
/**
 * Codes with which connections end every day. Node reads the stack of each error that closes a stream, so the
 * first ended sandbox would load every map while all requests wait. Their stacks keep the bundle's lines.
 */
const everyday = new Set<unknown>(['ABORT_ERR', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT'])

Error.prepareStackTrace = (error, frames) => {
  const stack = [String(error), ...frames.map((frame) => `    at ${frame}`)].join('\n')
  if (everyday.has((error as NodeJS.ErrnoException).code)) return stack
  return stack.replaceAll(position, (whole, file: string, line: string, column: string) => {
    if (!whole.startsWith(folder)) return whole
    const origin = mapOf(file)?.findOrigin(Number(line), Number(column))
    if (!origin || !('fileName' in origin)) return whole
    const source = new URL(origin.fileName, folder)
    return `${source}:${origin.lineNumber}:${origin.columnNumber}`
  })
}

function mapOf(file: string): SourceMap | undefined {
  if (!maps.has(file)) maps.set(file, readMap(file))
  return maps.get(file)
}

/**
 * Undefined if the bundle was removed while this process ran from it. Then only the bundle's lines can be
 * named.
 */
function readMap(file: string): SourceMap | undefined {
  try {
    return new SourceMap(JSON.parse(readFileSync(new URL(`${file}.map`, folder), 'utf8')))
  } catch {
    return undefined
  }
}
