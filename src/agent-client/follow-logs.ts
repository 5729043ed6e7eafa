/**
 * Reads the agents' log streams. Root inside a sandbox can send anything in the agent's place: what is no entry ends
 * the stream at once, and entries are taken only as fast as an honest agent sends them. An honest agent that has more
 * to tell waits, drops the oldest by itself and says so.
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
/** Texts of an entry are cut at 4096 characters by the agent. JSON makes six of a character at worst. */
const longestLine = 192 * 1024
/**
 * An entry waits for so long. The last of a command comes a moment before the command's answer, which it must not hold
 * up, and entries that come one by one are taken together: each batch costs a write to the disk.
 */
const batchPauseMs = 30
/** What an entry costs beside its bytes. */
const entryCost = 128
/** The burst is what an honest agent keeps for us until we come. */
const ownPace = { bytesPerSecond: 256 * 1024, burstBytes: 512 * 1024 }
/** All sandboxes together: many that send all they can must not keep the server busy. */
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

/** Puts lines together out of pieces. */
class Lines {
  #pieces: string[] = []
  #length = 0

  #hold(piece: string): void {
    this.#pieces.push(piece)
    this.#length += piece.length
    if (this.#length > longestLine) throw new AppError('internal', 'the agent sent a log line without end')
  }

  /** The lines that end in this piece, one by one: the first that is no entry spares the rest. */
  *add(piece: string): Generator<string> {
    let start = 0
    for (let end = piece.indexOf('\n'); end >= 0; end = piece.indexOf('\n', start)) {
      this.#hold(piece.slice(start, end))
      yield this.#pieces.join('')
      this.#pieces = []
      this.#length = 0
      start = end + 1
    }
    this.#hold(piece.slice(start))
  }
}

function parseEntry(line: string): NumberedLogEntry {
  const entry = parseLogEntry(line)
  if (!entry) throw new AppError('internal', 'the agent sent a log line that is no entry')
  return entry
}
