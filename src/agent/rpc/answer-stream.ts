/** The answer to a streaming call: messages are sent together when `flush` or `end` is called. */
import type { ServerResponse } from 'node:http'
import { openHeaders } from '../cors.ts'
import { wireError } from '../errors.ts'
import { byteText } from './codec.ts'
import { endOfStream, envelope } from './envelope.ts'

export class AnswerStream<Message> {
  /** Called when a full stream has space again. */
  onDrain: (() => void) | undefined
  readonly #response: ServerResponse
  readonly #encode: (message: Message) => string
  readonly #contentType: string
  /** Each character is one byte. */
  #pending = ''
  #isEnded = false
  #awaitsDrain = false

  constructor(response: ServerResponse, contentType: string, encode: (message: Message) => string) {
    this.#response = response
    this.#contentType = contentType
    this.#encode = encode
  }

  /** True if the caller reads more slowly than messages come. */
  get isFull(): boolean {
    return this.#response.writableNeedDrain
  }

  /** True if nothing more can be sent: the stream has ended, or its reader has disconnected. */
  get isOver(): boolean {
    return this.#isEnded || this.#response.destroyed
  }

  send(message: Message): void {
    if (!this.isOver) this.#pending += envelope(this.#encode(message))
  }

  flush(): void {
    if (this.isOver || this.#pending === '') return
    this.#writeHead()
    const pending = this.#pending
    this.#pending = ''
    if (!this.#response.write(pending, 'latin1')) this.#awaitDrain()
  }

  /** Waits only once, however much more is written meanwhile. */
  #awaitDrain(): void {
    if (this.#awaitsDrain) return
    this.#awaitsDrain = true
    this.#response.once('drain', () => {
      this.#awaitsDrain = false
      this.onDrain?.()
    })
  }

  end(error?: unknown): void {
    if (this.isOver) return
    this.#isEnded = true
    const end = error === undefined ? '{}' : byteText(JSON.stringify({ error: wireError(error) }))
    const rest = this.#pending + envelope(end, endOfStream)
    this.#writeHead(rest.length)
    this.#response.end(rest, 'latin1')
  }

  /** An answer of known length needs no chunks. */
  #writeHead(length?: number): void {
    if (this.#response.headersSent) return
    const headers = ['content-type', this.#contentType, ...openHeaders]
    if (length !== undefined) headers.push('content-length', String(length))
    this.#response.writeHead(200, headers)
  }
}

/** Sends each message as it comes, at the reader's pace. */
export async function sendAll<Message>(
  messages: AsyncIterable<Message>,
  answer: AnswerStream<Message>,
): Promise<void> {
  for await (const message of messages) {
    answer.send(message)
    answer.flush()
    if (answer.isFull)
      await new Promise<void>((resolve) => {
        answer.onDrain = resolve
      })
  }
}
