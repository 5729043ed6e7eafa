/** One output of a kernel: passes text on as it comes, and cuts it at the marker that ends the cell. */
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'

/**
 * A kernel whose output was closed by its cell writes no marker: after this much silence no more is expected.
 */
const silenceMs = 500
/** Some programs write a line in several pieces: how long to wait for the rest of a line. */
const lineMs = 20
const largestPiece = 64 * 1024

export class OutputPipe {
  readonly #source: Readable
  readonly #decoder = new StringDecoder('utf8')
  /** Undefined between cells: output that comes then is dropped. */
  #cell: { marker: string; onText: (text: string) => void; onEnd: () => void } | undefined
  /** Text that may be the beginning of the marker. */
  #buffered = ''
  /** The beginning of a line that was not passed on yet. */
  #line = ''
  #lineTimer: NodeJS.Timeout | undefined
  #received = 0
  #pauses = 0

  constructor(source: Readable) {
    this.#source = source
    source.on('data', (chunk: Buffer) => this.#accept(this.#decoder.write(chunk)))
    source.on('error', () => {})
    source.once('close', () => this.#end())
  }

  /** Resolves when all output of the cell has been passed to `onText`. */
  read(marker: string, onText: (text: string) => void): { ended: Promise<void>; giveUp: () => void } {
    const { promise: ended, resolve: onEnd } = Promise.withResolvers<void>()
    this.#buffered = ''
    this.#cell = { marker, onText, onEnd }
    if (this.#source.destroyed) this.#end()
    return { ended, giveUp: () => this.#endAfterSilence() }
  }

  /** Makes the kernel wait while the reader of the output is slow. */
  pause(): void {
    this.#pauses++
    this.#source.pause()
  }

  resume(): void {
    this.#source.resume()
  }

  #endAfterSilence(): void {
    const cell = this.#cell
    const [received, pauses, wasPaused] = [this.#received, this.#pauses, this.#source.isPaused()]
    setTimeout(() => {
      if (!cell || this.#cell !== cell) return
      const isSilent = !wasPaused && this.#pauses === pauses && this.#received === received
      if (isSilent) this.#end()
      else this.#endAfterSilence()
    }, silenceMs).unref()
  }

  #accept(text: string): void {
    this.#received += text.length
    const cell = this.#cell
    if (!cell) return
    const all = this.#buffered + text
    const at = all.indexOf(cell.marker)
    if (at >= 0) {
      this.#buffered = ''
      this.#give(all.slice(0, at))
      this.#end()
      return
    }
    const partial = partialEnd(all, cell.marker)
    this.#buffered = all.slice(all.length - partial)
    this.#give(all.slice(0, all.length - partial))
  }

  #give(text: string): void {
    this.#line += text
    if (this.#line === '') return
    if (this.#line.endsWith('\n') || this.#line.length > largestPiece) this.#giveLine()
    else this.#lineTimer ??= setTimeout(() => this.#giveLine(), lineMs)
  }

  #giveLine(): void {
    clearTimeout(this.#lineTimer)
    this.#lineTimer = undefined
    const text = this.#line
    this.#line = ''
    if (text !== '') this.#cell?.onText(text)
  }

  #end(): void {
    const cell = this.#cell
    if (!cell) return
    this.#give(this.#buffered)
    this.#giveLine()
    this.#cell = undefined
    cell.onEnd()
  }
}

/** The number of characters at the end of the text that may be the beginning of the marker. */
function partialEnd(text: string, marker: string): number {
  for (let length = Math.min(marker.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(marker.slice(0, length))) return length
  }
  return 0
}
