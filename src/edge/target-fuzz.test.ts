/** Compares the parser of request targets with a slow model on random input, and tests where such requests arrive. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import { domain, edgeFixture, fetchOnce, rawExchange, to } from './edge-fixture.ts'
import { destinationOf } from './host.ts'

const sandboxHost = `80-iabc.${domain}`
const hosts = [sandboxHost, sandboxHost.toUpperCase(), `${sandboxHost}:3000`, `api.${domain}`, '']
const methods = ['GET', 'POST', 'OPTIONS', 'DELETE', 'PUT']

type Asked = { method: string; url: string; host: string }

/** The model reads letter by letter, without regular expressions, so that it does not share the parser's mistakes. */
function model({ method, url, host }: Asked): string {
  if (!host.toLowerCase().startsWith('80-iabc.')) return isSigned(method, url) ? `signed ${url}` : 'api'
  if (url[0] === '/') return `iabc ${url}`
  if (url === '*' && method === 'OPTIONS') return 'iabc *'
  const scheme = ['http://', 'https://'].find((each) => url.toLowerCase().startsWith(each))
  if (scheme === undefined) return 'rejected'
  let end = scheme.length
  while (end < url.length && url[end] !== '/' && url[end] !== '?' && url[end] !== '#') end++
  const [authority, rest] = [url.slice(scheme.length, end), url.slice(end)]
  const broken = [...rest].some((char) => '\n\r\u2028\u2029'.includes(char))
  if (broken || authority.toLowerCase() !== host.toLowerCase()) return 'rejected'
  return `iabc ${rest[0] === '/' ? '' : '/'}${rest}`
}

function isSigned(method: string, url: string): boolean {
  if ((method !== 'GET' && method !== 'POST') || !url.startsWith('/files?')) return false
  for (let at = '/files'.length; at < url.length; at++) {
    if ((url[at] === '?' || url[at] === '&') && url.slice(at + 1).startsWith('signature=')) return true
  }
  return false
}

function read({ method, url, host }: Asked): string {
  const found = destinationOf({ method, url, rawHeaders: ['Host', host] }, domain)
  if (found.kind === 'sandbox') {
    assert.equal(found.port, 80)
    return `${found.sandboxID} ${found.path}`
  }
  return found.kind === 'signed-file' ? `signed ${found.path}` : found.kind
}

const pieces = [
  ...['/', '//', '*', '?', '#', '&', '@', ':', ':80', '.', '..', '%2f', '\\', '\n', '\u2028', ' ', 'x'],
  ...['http://', 'HTTPS://', 'ftp://', 'http:', 'evil.example', `http://${sandboxHost}`, '/files?', '/files'],
  ...['signature=', '&signature=v1', '?signature=', 'SIGNATURE=', ...hosts],
]

describe('the rule for request targets', () => {
  it('agrees with a slow model on random input', () => {
    const seed = Date.now() % 2 ** 31
    let state = seed || 1
    const below = (max: number) => {
      state = (Math.imul(state, 48271) >>> 0) % 0x7fffffff || 1
      return state % max
    }
    const pick = <T>(from: readonly T[]): T => from[below(from.length)]!
    const until = performance.now() + 500
    const seen: Record<string, number> = {}
    let round = 0
    for (; round < 60_000 && performance.now() < until; round++) {
      const url = Array.from({ length: 1 + below(5) }, () => pick(pieces)).join('')
      const asked = { method: pick(methods), url, host: pick(hosts) }
      const expected = model(asked)
      assert.equal(read(asked), expected, `seed ${seed}: ${JSON.stringify(asked)}`)
      const kind = expected.split(' ')[0]!
      const absolute = kind === 'iabc' && /^http/i.test(url) ? 'absolute' : kind
      seen[absolute] = (seen[absolute] ?? 0) + 1
    }
    for (const kind of ['iabc', 'absolute', 'signed', 'api', 'rejected']) {
      assert.ok((seen[kind] ?? 0) > round / 2000, `${kind} was reached ${seen[kind]} times in ${round}`)
    }
  })
})

describe('any request', () => {
  it('reaches only the address of its route, never a service of the host itself', async () => {
    await using edge = await edgeFixture()
    const onHost = await edge.service((_, response) => response.end('of the host'))
    // The sandbox has its own address, on which the same port may be open or closed.
    const inside = http.createServer((request, response) => response.end(`inside ${request.url}`))
    await once(inside.listen(0, '127.0.0.2'), 'listening')
    const open = (inside.address() as AddressInfo).port
    const asked: number[] = []
    const route = {
      sandboxID: 'iabc',
      runID: 'run',
      teamID: 'team',
      start: 'start',
      agentToken: 'token',
      trafficToken: null,
    }
    edge.routes.set({
      ...route,
      endpoint: (port) => {
        asked.push(port)
        return { host: '127.0.0.2', port }
      },
    })
    try {
      const sandbox = { sandboxID: 'iabc' }
      for (const port of [onHost.port, edge.port]) {
        const answer = await fetchOnce(edge.port, { headers: to(sandbox, port) })
        assert.deepEqual([answer.status, JSON.parse(answer.body).port], [502, port])
      }
      const targets = ['/', '//127.0.0.1/x', `//127.0.0.1:${onHost.port}/`, '/..%2f..', '/@169.254.169.254/']
      for (const path of targets) {
        const lies = { 'X-Forwarded-Host': `127.0.0.1:${onHost.port}`, Forwarded: 'host=127.0.0.1' }
        const answer = await fetchOnce(edge.port, { path, headers: { ...to(sandbox, open), ...lies } })
        assert.equal(answer.body, `inside ${path}`)
      }
      const before = asked.length
      for (const head of [
        `GET http://127.0.0.1:${onHost.port}/ HTTP/1.1\r\nHost: ${open}-iabc.${domain}`,
        `GET / HTTP/1.1\r\nHost: ${open}-iabc.${domain}\r\nHost: ${open}-iabc.${domain}`,
        `GET / HTTP/1.1\r\nHost: ${open}-iabc@127.0.0.1:${onHost.port}`,
        `GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: 127.0.0.1\r\nE2b-Sandbox-Port: ${onHost.port}`,
        `GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: iabc/../x\r\nE2b-Sandbox-Port: ${open}`,
        `GET / HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: iabc\r\nE2b-Sandbox-Port: ${open}@127.0.0.1`,
      ]) {
        const answer = await rawExchange(edge.port, `${head}\r\nConnection: close\r\n\r\n`)
        assert.match(answer, /^HTTP\/1\.1 400 /, head)
      }
      assert.equal(asked.length, before, 'none of these came as far as a dial')
    } finally {
      inside.closeAllConnections()
      inside.close()
    }
  })
})
