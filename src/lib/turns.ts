/**
 * The one way to act on what a row stands for: take its turn, read the row, decide, act, and move the row by compare
 * and set. Functions that act take an `InTurn` row, and only a turn gives one: a row out of a list, or one that was read
 * before the turn came, tells what was true a moment ago and does not compile there.
 *
 * Turns order what this process does. Other processes own other rows, and where a row can change hands, the compare
 * and set decides.
 */
declare const readInTurn: unique symbol

/** A row as it was read, or moved, inside its turn. */
export type InTurn<Row> = Row & { readonly [readInTurn]: true }

type Turn<Row> = {
  /** Undefined if there is no row. */
  row: InTurn<Row> | undefined
  /** Aborts when a caller that may overtake cancels the work. */
  signal: AbortSignal
}

type Work = { abort: AbortController; finished: Promise<void> }

export class Turns<Row> {
  readonly #read: (id: string) => Promise<Row | undefined>
  /** By id: the holder of the turn, then those who wait for it, in order. */
  readonly #queues = new Map<string, Set<Work>>()

  constructor(read: (id: string) => Promise<Row | undefined>) {
    this.#read = read
  }

  /** True while something has the turn or waits for it. */
  has(id: string): boolean {
    return this.#queues.has(id)
  }

  /** Waits for its turn, and reads the row then. */
  acquire<T>(id: string, work: (turn: Turn<Row>) => Promise<T>): Promise<T> {
    return this.#queue(id, async (signal) => work({ row: await this.read(id), signal }))
  }

  /** Like `acquire`, for work on another view of the row, which `read` reads in the turn. */
  acquireView<View, T>(
    id: string,
    read: (id: string) => Promise<View | undefined>,
    work: (turn: Turn<View>) => Promise<T>,
  ): Promise<T> {
    return this.#queue(id, async (signal) => {
      const row = (await read(id)) as InTurn<View> | undefined
      return work({ row, signal })
    })
  }

  /** Like `acquire`, but only if the turn is free. Undefined: another holder has the turn and leaves the row correct. */
  acquireIfFree<T>(id: string, work: (turn: Turn<Row>) => Promise<T>): Promise<T> | undefined {
    return this.has(id) ? undefined : this.acquire(id, work)
  }

  /** A turn for a row that this work makes, under an id that nobody else knows yet. */
  begin<T>(id: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#queue(id, work)
  }

  /** Resolves when the holder and all who wait for the turn now have ended, successfully or not. */
  async finished(id: string): Promise<void> {
    await Promise.all([...(this.#queues.get(id) ?? [])].map(({ finished }) => finished))
  }

  /** Cancels the holder and all who wait for the turn now. */
  cancel(id: string, reason: Error): void {
    for (const { abort } of this.#queues.get(id) ?? []) abort.abort(reason)
  }

  async allFinished(): Promise<void> {
    await Promise.all([...this.#queues.keys()].map((id) => this.finished(id)))
  }

  /** Reads the current row. Only the holder of the turn may call this. */
  protected async read(id: string): Promise<InTurn<Row> | undefined> {
    return (await this.#read(id)) as InTurn<Row> | undefined
  }

  /** Registers the work at once, before its first step. */
  #queue<T>(id: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const abort = new AbortController()
    const queue = this.#queues.get(id) ?? new Set()
    const before = [...queue].at(-1)?.finished ?? Promise.resolve()
    const outcome = before
      .then(() => work(abort.signal))
      .finally(() => {
        queue.delete(mine)
        if (queue.size === 0) this.#queues.delete(id)
      })
    const finished = outcome.then(
      () => {},
      () => {},
    )
    const mine: Work = { abort, finished }
    this.#queues.set(id, queue.add(mine))
    return outcome
  }
}
