/** The answer to an execution: one JSON object per line, as events happen. */
import type { ServerResponse } from 'node:http'
import type { Clock } from '../lib/clock.ts'
import type { KernelEvent } from './event-lines.ts'
import type { CellListener } from './kernel.ts'
import { wireResult } from './wire-result.ts'

const keepaliveAfterMs = 5000
/** A client that reads more slowly than the cell prints makes the cell wait. */
const maxUnsentBytes = 1024 * 1024
/** Few, because a cell starts before it prints. */
const maxBufferedLines = 100

type OutputSource = { pauseOutput(): void; resumeOutput(): void }

export class ExecutionStream implements CellListener {
  readonly #response: ServerResponse
  readonly #source: OutputSource
  readonly #clock: Clock
  #keepalive: NodeJS.Timeout | undefined
  /**
   * Output that arrived before the event that the cell has started: outputs and events have separate pipes.
   */
  #buffered: object[] | undefined = []

  constructor(response: ServerResponse, source: OutputSource, clock: Clock) {
    this.#response = response
    this.#source = source
    this.#clock = clock
    response.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' })
    response.flushHeaders()
    response.on('drain', () => source.resumeOutput())
    // A disconnected client reads no more, and a cell that waits for it could not end.
    response.on('close', () => !response.writableEnded && source.resumeOutput())
    this.#expectSilence()
  }

  onOutput = (type: 'stdout' | 'stderr', text: string): void => {
    const timestamp = new Date(this.#clock.now()).toISOString()
    const line = { type, text, timestamp }
    if (!this.#buffered) this.#write(line)
    else if (this.#buffered.push(line) >= maxBufferedLines) this.#writeBuffered()
  }

  onEvent = (event: KernelEvent): void => {
    if (event.type === 'started') {
      this.#write({ type: 'number_of_executions', execution_count: event.count })
      this.#writeBuffered()
    } else if (event.type === 'result') this.#write(wireResult(event.data, event.main))
    else if (event.type === 'error') this.fail(event.name, event.value, event.traceback)
  }

  fail(name: string, value: string, traceback = ''): void {
    this.#writeBuffered()
    this.#write({ type: 'error', name, value, traceback })
  }

  end(): void {
    this.#writeBuffered()
    this.#write({ type: 'end_of_execution' })
    clearTimeout(this.#keepalive)
    this.#source.resumeOutput()
    this.#response.end()
  }

  #writeBuffered(): void {
    const lines = this.#buffered ?? []
    this.#buffered = undefined
    for (const line of lines) this.#write(line)
  }

  #write(line: object): void {
    if (this.#response.destroyed || this.#response.writableEnded) return
    this.#response.write(`${asciiJson(line)}\n`)
    if (this.#response.writableLength > maxUnsentBytes) this.#source.pauseOutput()
    this.#expectSilence()
  }

  #expectSilence(): void {
    clearTimeout(this.#keepalive)
    this.#keepalive = setTimeout(() => this.#write({ type: 'keepalive' }), keepaliveAfterMs)
  }
}

/** Clients decode each piece of the stream separately, so no character may be split. */
function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
