/** A server that takes every build for done and keeps what a client asked of it, so that releases can be compared. */
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export type BuildRecorder = {
  url: string
  /** What was sent since the last call, in an order of its own: builds may run beside each other. */
  drain(): string[]
  close(): void
}

const build = { templateID: 'template', buildID: 'build', names: [], aliases: [], tags: [], public: false }
const done = { ...build, status: 'ready', logs: [], logEntries: [] }

/** The name of an upload, which each release makes in its own way and Warren does not look into. */
const filesHash = /(\/files\/|"filesHash":")[0-9a-f]{64}/g

export async function startBuildRecorder(): Promise<BuildRecorder> {
  const sent: string[] = []
  const server = http.createServer(async (request, response) => {
    const { method, url = '' } = request
    const isQuestion = url.includes('/status')
    const body = await text(request)
    const line = `${method} ${url} ${body && JSON.stringify(sorted(JSON.parse(body)))}`
    if (!isQuestion) sent.push(line.replaceAll(filesHash, '$1HASH'))
    const status = method === 'POST' ? 202 : url.includes('/files/') ? 201 : 200
    response.writeHead(status, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify(isQuestion ? done : { ...build, present: true }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    drain: () => sent.splice(0).sort(),
    close: () => void server.close().closeAllConnections(),
  }
}

/** With the fields of every object in one order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([name, field]) => [name, sorted(field)] as const)
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)))
}
