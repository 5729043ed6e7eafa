/** Copies the body of a message from one connection to another, at the speed of the reader. */
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { pauseReading } from '../node-internals/paused-message.ts'
import { noteSpent } from '../node-internals/spent-buffers.ts'
import { type ChunkPacer, tinyBytes } from './chunk-pacer.ts'
import { type HeaderNames, trailerPairs } from './headers.ts'
import { readLittleAtOnce } from './upstream-socket.ts'

type BodyFlowOptions = {
  /** Names of trailers that do not cross; null: none cross. */
  ownTrailers: HeaderNames | null
  pacer: ChunkPacer
}

type Sink = ClientRequest | ServerResponse

/** From this number of tiny pieces in one turn on, later reads are small. */
const manyPieces = 50

export class BodyFlow {
  readonly #source: IncomingMessage
  readonly #sink: Sink
  readonly #options: BodyFlowOptions
  /** Tiny pieces of one turn of the event loop, which are written together. */
  #gathered: Buffer[] = []
  #pauses = 0
  readonly #beginning: Beginning

  /** Begins at once. Sends the head with the first piece of the body, or alone if that piece takes long. */
  constructor(source: IncomingMessage, sink: Sink, options: BodyFlowOptions) {
    this.#source = source
    this.#sink = sink
    this.#options = options
    this.#beginning = beginningOf(sink)
    source.on('data', this.#accept).on('end', this.#end)
    sink.on('close', this.#releaseAll)
  }

  /** Null once the message is no longer bound to its connection. */
  get #socket(): Socket | null {
    return this.#source.socket
  }

  /** Passes on the bytes that it has read, and reads no more. */
  detach(): void {
    this.#source.off('data', this.#accept).off('end', this.#end)
    this.#flush()
  }

  #accept = (chunk: Buffer): void => {
    this.#beginning.hasBegun = true
    noteSpent(chunk.length)
    if (chunk.length >= tinyBytes && this.#gathered.length === 0) this.#write(chunk)
    else if (this.#gathered.push(chunk) === 1) process.nextTick(this.#flush)
  }

  #flush = (): void => {
    const gathered = this.#gathered
    if (gathered.length === 0) return
    this.#gathered = []
    this.#write(gathered.length === 1 ? gathered[0]! : Buffer.concat(gathered))
    if (gathered.length >= manyPieces && this.#socket) readLittleAtOnce(this.#socket)
    if (this.#options.pacer.spend(gathered.length, this.#release) > 0) this.#pause()
  }

  #write(chunk: Buffer): void {
    // No reader is left for the rest.
    if (this.#sink.destroyed || this.#sink.writableEnded) return
    if (this.#sink.write(chunk)) return
    this.#pause()
    this.#sink.once('drain', this.#release)
  }

  #pause(): void {
    this.#pauses += 1
    pauseReading(this.#source, () => this.#pauses > 0)
    this.#source.pause()
    this.#socket?.pause()
  }

  #release = (): void => {
    if (this.#pauses === 1) this.#releaseAll()
    else if (this.#pauses > 1) this.#pauses -= 1
  }

  #releaseAll = (): void => {
    if (this.#pauses === 0) return
    this.#pauses = 0
    this.#socket?.resume()
    this.#source.resume()
  }

  #end = (): void => {
    this.#flush()
    const { rawTrailers } = this.#source
    const { ownTrailers } = this.#options
    if (ownTrailers && rawTrailers.length > 0) addTrailers(this.#sink, rawTrailers, ownTrailers)
    this.#sink.end()
  }
}

/** Delays the head of a message for the first piece of its body. */
type Beginning = { readonly sink: Sink; hasBegun: boolean }

let beginnings: Beginning[] = []

/** Sends the head alone unless the body begins within this turn of the event loop. */
export function beginningOf(sink: Sink): Beginning {
  const beginning = { sink, hasBegun: false }
  if (beginnings.push(beginning) === 1) setImmediate(flushHeads)
  return beginning
}

/** One call for all messages of the turn. */
function flushHeads(): void {
  const all = beginnings
  beginnings = []
  for (const { sink, hasBegun } of all) {
    if (!hasBegun && !sink.writableEnded && !sink.destroyed) sink.flushHeaders()
  }
}

function addTrailers(sink: Sink, rawTrailers: readonly string[], own: HeaderNames): void {
  try {
    sink.addTrailers(trailerPairs(rawTrailers, own))
  } catch {
    // Malformed trailers are dropped; the body before them is complete.
  }
}
