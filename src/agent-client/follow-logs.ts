/**
 * Reads the agents' log streams. Root inside a sandbox can send anything in the agent's place: a line that is
 * not an entry ends the stream at once, and entries are read only as fast as a genuine agent sends them. A
 * genuine agent with more entries waits, drops the oldest itself and reports that.
 */
import type { IncomingMessage } from 'node:http'
import { header } from '../contract/constants.ts'
import type { AgentPort } from '../core/ports/agent.ts'
import type { Endpoint } from '../core/ports/driver.ts'
import { type NumberedLogEntry, parseLogEntry } from '../core/ports/logs.ts'
import { AppError } from '../lib/app-error.ts'
import { sleep, systemClock } from '../lib/clock.ts'
import { Pace } from '../lib/pace.ts'
import { type AgentRequestOptions, requestAgent, responseTo } from './request.ts'

const headWithinMs = 30_000
/** The agent cuts the texts of an entry at 4096 characters. In JSON, a character takes six at worst. */
const longestLine = 192 * 1024
/**
 * How long an entry waits for its batch. The last entry of a command comes shortly before the command's
 * answer, which it must not delay, and single entries are collected because each batch costs a write to the
 * disk.
 */
const batchPauseMs = 30
/** The cost of an entry in addition to its bytes. */
const entryCost = 128
/** The burst is as much as a genuine agent buffers. */
const ownPace = { bytesPerSecond: 256 * 1024, burstBytes: 512 * 1024 }
/** For all sandboxes together: many that send as fast as they can must not keep the server busy. */
const totalPace = { bytesPerSecond: 8 * 1024 * 1024, burstBytes: 16 * 1024 * 1024 }

export function createLogFollower(clock = systemClock): AgentPort['followLogs'] {
  const total = new Pace({ ...totalPace, clock })
  return async function* followLogs(agent, accessToken, after, signal) {
    const paces = [new Pace({ ...ownPace, clock }), total]
    const response = await open(agent, accessToken, after, { signal, paces, clock })
    const pause = (ms: number) => sleep(clock, ms, signal)
    for await (const entries of readEntries(response, () => pause(batchPauseMs))) {
      if (entries.length > 0) yield entries
      const waitMs = Math.max(...paces.map((pace) => pace.spend(entries.length * entryCost)))
      if (waitMs > 0) await pause(waitMs)
    }
  }
}

async function* readEntries(
  response: IncomingMessage,
  pause: () => Promise<void>,
): AsyncGenerator<NumberedLogEntry[]> {
  const lines = new Lines()
  try {
    for await (const chunk of response.setEncoding('utf8') as AsyncIterable<string>) {
      await pause()
      const more: string | null = response.read()
      yield Array.from(lines.add(chunk + (more ?? '')), parseEntry)
    }
  } finally {
    response.destroy()
  }
}

async function open(
  agent: Endpoint,
  accessToken: string,
  after: number,
  options: Pick<AgentRequestOptions, 'signal' | 'paces' | 'clock'>,
): Promise<IncomingMessage> {
  const headers = { [header.accessToken]: accessToken }
  const outgoing = requestAgent(agent, { method: 'GET', path: `/logs?after=${after}`, headers, ...options })
  outgoing.end()
  const response = await responseTo(outgoing, headWithinMs)
  if (response.statusCode === 200) return response
  outgoing.destroy()
  throw new AppError('internal', `the agent answered its log with the status ${response.statusCode}`)
}

/** Assembles lines from pieces. */
class Lines {
  #pieces: string[] = []
  #length = 0

  #buffer(piece: string): void {
    this.#pieces.push(piece)
    this.#length += piece.length
    if (this.#length > longestLine)
      throw new AppError('internal', 'the agent sent a log line that is too long')
  }

  /**
   * Yields the lines that end in this piece one by one, so that the first line that is not an entry stops the
   * rest.
   */
  *add(piece: string): Generator<string> {
    let start = 0
    for (let end = piece.indexOf('\n'); end >= 0; end = piece.indexOf('\n', start)) {
      this.#buffer(piece.slice(start, end))
      yield this.#pieces.join('')
      this.#pieces = []
      this.#length = 0
      start = end + 1
    }
    this.#buffer(piece.slice(start))
  }
}

function parseEntry(line: string): NumberedLogEntry {
  const entry = parseLogEntry(line)
  if (!entry) throw new AppError('internal', 'the agent sent a log line that is not an entry')
  return entry
}
