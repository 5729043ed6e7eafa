/** The representations of a JavaScript value as a result, by MIME type. */
import { inspect } from 'node:util'

/** Methods by which a value provides its own representation, as in JavaScript notebooks. */
const methods: Record<string, string> = {
  _toHtml: 'text/html',
  _toMarkdown: 'text/markdown',
  _toSvg: 'image/svg+xml',
  _toPng: 'image/png',
  _toJpeg: 'image/jpeg',
  _toLatex: 'text/latex',
}
const shownDepth = 4
const largestText = 48 * 1024 * 1024

export function mimeBundle(value: unknown): Record<string, unknown> {
  const shown = inspect(value, { depth: shownDepth, maxStringLength: largestText })
  const bundle: Record<string, unknown> = { 'text/plain': shown.slice(0, largestText) }
  if (typeof value !== 'object' || value === null) return bundle
  const own = value as Record<string, unknown>
  for (const [method, type] of Object.entries(methods)) {
    if (typeof own[method] === 'function') bundle[type] = own[method]()
  }
  if (typeof own._toMime === 'function') Object.assign(bundle, own._toMime())
  return bundle
}
