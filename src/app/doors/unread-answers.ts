/**
 * Bounds the memory of answers that clients of HTTP/2 ask for and do not read. A connection may ask for hundreds at once and
 * stop reading them for nothing, so a few connections could take all memory.
 */

/** For all clients together. */
const maxUnreadBytes = 128 * 1024 * 1024

type Connection = { destroy(error: Error): void }

export class UnreadAnswers {
  readonly #maxBytes: number
  readonly #ofConnection = new Map<Connection, number>()
  #bytes = 0

  constructor(maxBytes = maxUnreadBytes) {
    this.#maxBytes = maxBytes
  }

  /** Beyond the limit, the connection with the most is cut. Returns what to call when the client reads on or has left. */
  add(connection: Connection, bytes: number): () => void {
    this.#change(connection, bytes)
    let isOver = false
    const remove = () => {
      if (!isOver) this.#change(connection, -bytes)
      isOver = true
    }
    if (this.#bytes > this.#maxBytes) this.#cutLargest()
    return remove
  }

  #change(connection: Connection, bytes: number): void {
    this.#bytes += bytes
    const left = (this.#ofConnection.get(connection) ?? 0) + bytes
    if (left > 0) this.#ofConnection.set(connection, left)
    else this.#ofConnection.delete(connection)
  }

  #cutLargest(): void {
    let largest: Connection | undefined
    for (const [connection, bytes] of this.#ofConnection)
      if (!largest || bytes > this.#ofConnection.get(largest)!) largest = connection
    largest?.destroy(new Error('Its client does not read the answers that it asks for.'))
  }
}
