/**
 * The connections of clients that speak HTTP/2. GOAWAY tells a client that its connection ends and which of its requests were
 * taken. A request that is on its way at that moment was not, and not every client sends it again; some even give up requests
 * that were taken. So GOAWAY waits until nothing is open and the client was quiet for a moment.
 */
import type { Http2Session, ServerHttp2Stream } from 'node:http2'
import { type Clock, sleep } from '../../lib/clock.ts'
import { letOthersRun } from '../../lib/let-others-run.ts'

type SessionUse = {
  /** Since when each open stream is open. */
  streams: Map<ServerHttp2Stream, number>
  /** Begin the streams that have not begun. */
  waiting: (() => void)[]
  /** Since when streams do not begin; undefined while they do. */
  waitingSince: number | undefined
  /** When it was opened, or when its last stream was opened or closed. */
  quietSince: number
  isUsed: boolean
}

const lookEveryMs = 50
/** How long a client was quiet before GOAWAY. */
const quietMs = 250
/** The same for a connection that was just opened: its client is about to send. */
const unusedMs = 5000
const maxDelayMs = 1000
/** How long a client on a busy machine may take to notice that its connection ends. */
const noticeMs = 1000
/** How long it may take to read the rest of its answers before the connection is closed. */
const readMs = 2000

export class Http2Sessions {
  readonly #clock: Clock
  /** Those whose clients were not told yet that the connection ends. */
  readonly #untold = new Map<Http2Session, SessionUse>()
  readonly #reported = new Map<Http2Session, SessionUse>()
  #reportedCount = 0
  #isLeaving = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(session: Http2Session): void {
    const quietSince = this.#clock.now()
    const use = { streams: new Map<ServerHttp2Stream, number>(), waiting: [], isUsed: false }
    this.#untold.set(session, { ...use, waitingSince: undefined, quietSince })
    session.once('close', () => {
      this.#untold.delete(session)
      this.#reported.delete(session)
    })
  }

  /**
   * Begins one stream of a session in each turn of the event loop, so that a session that opens hundreds at once blocks
   * nobody else.
   */
  begin(session: Http2Session, stream: ServerHttp2Stream, act: () => void): void {
    const use = this.#untold.get(session) ?? this.#reported.get(session)
    if (!use) return void stream.destroy()
    const note = () => {
      use.quietSince = this.#clock.now()
    }
    use.isUsed = true
    use.streams.set(stream, this.#clock.now())
    note()
    stream.once('close', () => {
      use.streams.delete(stream)
      note()
    })
    if (use.waiting.push(act) === 1) setImmediate(beginNext, use)
  }

  /** From now on, each connection ends once it is quiet. */
  askToLeave(): void {
    if (this.#isLeaving) return
    this.#isLeaving = true
    const look = async () => {
      // After a busy moment, Node runs timers before it reads the requests that have arrived.
      await letOthersRun()
      const now = this.#clock.now()
      for (const [session, { streams, quietSince }] of this.#reported)
        if (streams.size === 0 && now - quietSince >= readMs) session.close()
      this.#endWhere(({ streams, isUsed, waitingSince, quietSince }) => {
        if (waitingSince !== undefined && now - waitingSince >= maxDelayMs) return true
        const isOver = streams.size === 0 || waitingSince !== undefined
        return isOver && now - quietSince >= (isUsed ? quietMs : unusedMs)
      })
      this.#clock.after(lookEveryMs, look)
    }
    void look()
  }

  /**
   * Asks clients to leave, and resolves when each of them knows. After `patienceMs`, the streams that clients open on connections
   * that were never quiet wait: a client that waits for its answers is quiet. Then the connection ends, and they are answered. Nobody
   * waits for streams that began longer ago than that.
   */
  async letLeave(patienceMs: number): Promise<void> {
    this.askToLeave()
    const maxMs = patienceMs + 2 * noticeMs
    for (
      let [waitedMs, lastReportedMs, count] = [0, -noticeMs, 0];
      waitedMs < maxMs;
      waitedMs += lookEveryMs
    ) {
      await letOthersRun()
      if (waitedMs >= patienceMs) this.delayStreams()
      if (this.#reportedCount > count) lastReportedMs = waitedMs
      count = this.#reportedCount
      if (waitedMs - lastReportedMs >= noticeMs && !this.isInUse(patienceMs)) break
      await sleep(this.#clock, lookEveryMs)
    }
    this.#endWhere(({ isUsed }) => isUsed)
  }

  /**
   * Whether a client that does not know that the server leaves opened or used a connection within this time, one of the
   * streams that began within it is not over, or a client may still be reading an answer.
   */
  isInUse(withinMs: number): boolean {
    const isNew = (time: number, ms = withinMs) => this.#clock.now() - time < ms
    for (const { quietSince } of this.#untold.values()) if (isNew(quietSince)) return true
    for (const { streams, quietSince } of this.#reported.values())
      if ([...streams.values()].some((since) => isNew(since)) || isNew(quietSince, readMs)) return true
    return false
  }

  /** Lets new streams wait until their connection was told to end, which is soon. */
  delayStreams(): void {
    for (const use of this.#untold.values()) if (use.isUsed) use.waitingSince ??= this.#clock.now()
  }

  /** Ends the connections without a stream, or that one if it has none. */
  endIdle(only?: Http2Session): void {
    for (const [session, { streams }] of this.#untold)
      if (streams.size === 0 && (!only || session === only)) session.close()
  }

  /** Cuts all connections, after telling each client which of its requests were never taken. Answers that are complete are sent. */
  cut(): void {
    this.#endWhere(() => true)
    for (const { streams } of this.#reported.values())
      for (const stream of streams.keys())
        if (!stream.writableEnded) stream.destroy(new Error('Warren is closing'))
    for (const session of this.#reported.keys()) session.close()
    this.#clock.after(noticeMs, () => {
      for (const session of this.#reported.keys()) session.destroy(new Error('Warren is closing'))
    })
  }

  #endWhere(matches: (use: SessionUse) => boolean): void {
    for (const [session, use] of this.#untold) {
      if (session.destroyed || !matches(use)) continue
      this.#untold.delete(session)
      this.#reported.set(session, use)
      this.#reportedCount += 1
      // Not by closing: some clients lose answers that they have not read when their connection ends.
      session.goaway()
      use.quietSince = this.#clock.now()
      if (use.waitingSince === undefined) continue
      use.waitingSince = undefined
      beginNext(use)
    }
  }
}

function beginNext(use: SessionUse): void {
  if (use.waitingSince !== undefined) return
  use.waiting.shift()?.()
  if (use.waiting.length > 0) setImmediate(beginNext, use)
}
