/**
 * Reads the agents' log streams. Root inside a sandbox can send anything in the agent's place: what is no entry ends
 * the stream at once, and entries are taken only as fast as an honest agent sends them. An honest agent that has more
 * to tell waits, drops the oldest by itself and says so.
 */
import type { IncomingMessage } from 'node:http'
import { header } from '../contract/constants.ts'
import type { AgentPort } from '../core/agent.ts'
import type { Endpoint } from '../core/driver.ts'
import { type LogLevel, logLevels, type NumberedLogEntry } from '../core/logs.ts'
import { AppError } from '../lib/app-error.ts'
import { sleep, systemClock } from '../lib/clock.ts'
import { Pace } from '../lib/pace.ts'
import { requestAgent, responseTo } from './request.ts'

const headWithinMs = 30_000
const longestLine = 256 * 1024
const latestTime = 8_640_000_000_000_000
/** Entries that come one by one are taken together: each batch costs a write to the disk. */
const batchPauseMs = 10
/** What an entry costs beside its bytes. */
const entryCost = 128
const ownPace = { bytesPerSecond: 256 * 1024, burstBytes: 1024 * 1024 }
/** All sandboxes together: many that send all they can must not keep the server busy. */
const totalPace = { bytesPerSecond: 8 * 1024 * 1024, burstBytes: 16 * 1024 * 1024 }

export function createLogFollower(clock = systemClock): AgentPort['followLogs'] {
  const total = new Pace({ ...totalPace, clock })
  return async function* followLogs(agent, accessToken, after, signal) {
    const response = await open(agent, accessToken, after, signal)
    const paces = [new Pace({ ...ownPace, clock }), total]
    yield* readEntries(response, (cost) => {
      const pauseMs = Math.max(batchPauseMs, ...paces.map((pace) => pace.spend(cost)))
      return sleep(clock, pauseMs, signal)
    })
  }
}

/** Waits between two batches for as long as the last one cost. */
async function* readEntries(
  response: IncomingMessage,
  wait: (cost: number) => Promise<void>,
): AsyncGenerator<NumberedLogEntry[]> {
  try {
    // Bytes as they came, with all that HTTP puts around them: many small chunks cost more than their content.
    const { socket } = response
    let spentBytes = 0
    const lines = new Lines()
    for await (const chunk of response.setEncoding('utf8') as AsyncIterable<string>) {
      const entries = lines.add(chunk).map(parseEntry)
      if (entries.length > 0) yield entries
      const cost = socket.bytesRead - spentBytes + entries.length * entryCost
      spentBytes = socket.bytesRead
      await wait(cost)
    }
  } finally {
    response.destroy()
  }
}

async function open(
  agent: Endpoint,
  accessToken: string,
  after: number,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const headers = { [header.accessToken]: accessToken }
  const outgoing = requestAgent(agent, { method: 'GET', path: `/logs?after=${after}`, headers, signal })
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

  add(piece: string): string[] {
    const [first = '', ...others] = piece.split('\n')
    this.#pieces.push(first)
    this.#length += first.length
    if (this.#length > longestLine) throw new AppError('internal', 'the agent sent a log line without end')
    if (others.length === 0) return []
    const lines = [this.#pieces.join(''), ...others]
    const rest = lines.pop()!
    this.#pieces = [rest]
    this.#length = rest.length
    return lines
  }
}

function parseEntry(line: string): NumberedLogEntry {
  const { sequence, at, level, message, fields } = parseObject(line)
  const isEntry =
    isWhole(sequence, Number.MAX_SAFE_INTEGER) &&
    isWhole(at, latestTime) &&
    isLevel(level) &&
    typeof message === 'string' &&
    isTextMap(fields)
  if (!isEntry) throw notAnEntry()
  return { sequence, at, level, message, fields }
}

function parseObject(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {}
  throw notAnEntry()
}

function notAnEntry(): AppError {
  return new AppError('internal', 'the agent sent a log line that is no entry')
}

function isWhole(value: unknown, largest: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= largest
}

function isLevel(value: unknown): value is LogLevel {
  return logLevels.some((level) => level === value)
}

function isTextMap(value: unknown): value is Record<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return Object.values(value).every((text) => typeof text === 'string')
}
