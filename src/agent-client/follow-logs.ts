/** Reads the agent's log stream. What comes from a sandbox is believed only as far as its form goes. */
import { type IncomingMessage, request } from 'node:http'
import { header } from '../contract/constants.ts'
import type { Endpoint } from '../core/driver.ts'
import { type LogLevel, logLevels, type NumberedLogEntry } from '../core/logs.ts'
import { AppError } from '../lib/app-error.ts'

const longestLine = 256 * 1024

export async function* followLogs(
  agent: Endpoint,
  accessToken: string,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<NumberedLogEntry[]> {
  const response = await open(agent, accessToken, after, signal)
  let rest = ''
  for await (const chunk of response.setEncoding('utf8') as AsyncIterable<string>) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > longestLine) throw new AppError('internal', 'the agent sent a log line without end')
    const entries = lines.flatMap((line) => parseEntry(line) ?? [])
    if (entries.length > 0) yield entries
  }
}

function open(
  agent: Endpoint,
  accessToken: string,
  after: number,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = { [header.accessToken]: accessToken }
    const path = `/logs?after=${after}`
    const outgoing = request({ host: agent.host, port: agent.port, path, headers, agent: false, signal })
    outgoing.on('error', reject)
    outgoing.on('response', (response) => {
      if (response.statusCode === 200) return resolve(response)
      response.destroy()
      reject(new AppError('internal', `the agent answered its log with ${response.statusCode}`))
    })
    outgoing.end()
  })
}

function parseEntry(line: string): NumberedLogEntry | undefined {
  try {
    const { sequence, at, level, message, fields } = JSON.parse(line)
    const isWhole = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0
    if (!isWhole(sequence) || !isWhole(at) || typeof message !== 'string' || !isLevel(level)) return undefined
    const texts = Object.entries(fields ?? {}).filter(
      (pair): pair is [string, string] => typeof pair[1] === 'string',
    )
    return { sequence, at, level, message, fields: Object.fromEntries(texts) }
  } catch {
    return undefined
  }
}

const isLevel = (value: unknown): value is LogLevel => logLevels.some((level) => level === value)
