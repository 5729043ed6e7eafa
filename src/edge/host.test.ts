import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Destination, destinationOf, domainName } from './host.ts'

const id = 'i0123456789abcdefghij'
const domain = 'sandbox.test'

type Ask = {
  host?: string | string[]
  url?: string
  method?: string
  headers?: string[]
  domain?: string | null
}

function ask({ host = [], url = '/', method = 'GET', headers = [], domain: d = domain }: Ask): Destination {
  const hosts = [host].flat().flatMap((value) => ['Host', value])
  return destinationOf({ method, url, rawHeaders: [...hosts, ...headers] }, d)
}

const short = (destination: Destination): string =>
  destination.kind === 'sandbox'
    ? `${destination.sandboxID}:${destination.port}`
    : destination.kind === 'rejected'
      ? destination.reason
      : destination.kind

const route = (sandboxID: string, port: string): string[] => [
  'E2b-Sandbox-Id',
  sandboxID,
  'E2b-Sandbox-Port',
  port,
]

describe('a sandbox host', () => {
  const cases: [host: string | string[], expected: string][] = [
    [`49983-${id}.${domain}`, `${id}:49983`],
    [`49983-${id}-6532622b.${domain}`, `${id}:49983`],
    [`3000-${id}.${domain}:8443`, `${id}:3000`],
    [`3000-${id}.${domain}.`, `${id}:3000`],
    [`3000-${id}.${domain}.:8443`, `${id}:3000`],
    [`3000-${id.toUpperCase()}.${domain.toUpperCase()}`, `${id}:3000`],
    [`3000-${id}.other.example`, `${id}:3000`],
    [`3000-${id}.localhost:3000`, `${id}:3000`],
    [`3000-${id}.extra.${domain}`, `${id}:3000`],
    [`65535-${id}.${domain}`, `${id}:65535`],
    [`65536-${id}.${domain}`, 'Invalid sandbox port'],
    [`0-${id}.${domain}`, 'Invalid sandbox port'],
    [`03000-${id}.${domain}`, 'Invalid sandbox port'],
    [`99999999999999999999-${id}.${domain}`, 'Invalid sandbox port'],
    [`3000-${id}`, 'Invalid host'],
    [`3000-${id}..${domain}`, 'Invalid host'],
    [`3000-${id}.${domain}..`, 'Invalid host'],
    [`3000-${id}.${domain}:80:80`, 'Invalid host'],
    [`3000-${id}.${domain}:http`, 'Invalid host'],
    [`3000-${id}%2e${domain}`, 'Invalid host'],
    [`3000-${id}.${domain}@evil.example`, 'Invalid host'],
    [`3000-${id}.${domain}/x`, 'Invalid host'],
    [`3000-${id}.${domain}#x`, 'Invalid host'],
    [`3000-${id}\u00e9.${domain}`, 'Invalid host'],
    [`3000-${id}\0.${domain}`, 'Invalid host'],
    [`3000-${id}, 3000-other.${domain}`, 'Invalid host'],
    [`3000-.${domain}`, 'Invalid sandbox ID'],
    [`3000-${id}_.${domain}`, 'Invalid sandbox ID'],
    [`3000-${id}-.${domain}`, 'Invalid sandbox ID'],
    [`3000-${id}-a-b.${domain}`, 'Invalid sandbox ID'],
    [[`3000-${id}.${domain}`, `3000-${id}.${domain}`], 'Invalid host'],
    [[`3000-${id}.${domain}`, 'localhost'], 'Invalid host'],
    [['localhost', 'localhost'], 'Invalid host'],
    [`x.3000-${id}.${domain}`, 'api'],
    [`x-${id}.${domain}`, 'api'],
    [`-3000-${id}.${domain}`, 'api'],
    [`\uff13000-${id}.${domain}`, 'api'],
    [`user@3000-${id}.${domain}`, 'api'],
    [`api.${domain}`, 'api'],
    [`under_score:3000`, 'api'],
    ['', 'api'],
    [[], 'api'],
    [`sandbox.${domain}`, 'Invalid host'],
  ]
  for (const [host, expected] of cases) {
    it(`${JSON.stringify(host)} is ${expected}`, () => assert.equal(short(ask({ host })), expected))
  }

  it('gives the host that belongs to the sandbox alone', () => {
    const destination = ask({ host: `3000-${id}.${domain}.:80` })
    assert.equal(destination.kind === 'sandbox' && destination.ownHost, `3000-${id}.${domain}`)
  })

  it('overrides routing headers that disagree', () => {
    const headers = route('iother', '22')
    assert.equal(short(ask({ host: `3000-${id}.${domain}`, headers })), `${id}:3000`)
  })

  it('is never taken from a forwarding header', () => {
    const headers = ['X-Forwarded-Host', `3000-${id}.${domain}`, 'Forwarded', `host=3000-${id}.${domain}`]
    assert.equal(short(ask({ host: `api.${domain}`, headers })), 'api')
    assert.equal(short(ask({ host: `80-iother.${domain}`, headers })), 'iother:80')
  })

  it('may be under a domain that itself begins with a number and a dash', () => {
    const dashed = '192-168-1-5.dns.test'
    assert.equal(short(ask({ host: dashed, domain: dashed })), 'api')
    assert.equal(short(ask({ host: `80-${id}.${dashed}`, domain: dashed })), `${id}:80`)
  })
})

describe('routing headers', () => {
  for (const host of [
    'localhost',
    'LOCALHOST:3000',
    '127.0.0.1:3000',
    '[::1]:3000',
    '10.1.2.3',
    `sandbox.${domain}`,
  ]) {
    it(`count on ${host}`, () => {
      const destination = ask({ host, headers: route(id, '49983') })
      assert.equal(short(destination), `${id}:49983`)
      assert.equal(destination.kind === 'sandbox' && destination.ownHost, null)
    })
  }
  for (const host of [
    `api.${domain}`,
    domain,
    'example.com',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '[::1',
    '',
  ]) {
    it(`do not count on ${JSON.stringify(host)} when there is a domain`, () => {
      assert.equal(short(ask({ host, headers: route(id, '49983') })), 'api')
    })
  }
  for (const local of [null, 'localhost']) {
    it(`count on any host that names no sandbox when the domain is ${local}`, () => {
      assert.equal(
        short(ask({ host: 'my_server:3000', headers: route(id, '80'), domain: local })),
        `${id}:80`,
      )
    })
  }

  const cases: [headers: string[], expected: string][] = [
    [['E2b-Sandbox-Id', id], 'missing header'],
    [['E2b-Sandbox-Port', '80'], 'missing header'],
    [route(id, '80').map((text) => text.toLowerCase()), `${id}:80`],
    [route(`${id}-6532622b`, '80'), `${id}:80`],
    [route(id.toUpperCase(), '80'), 'Invalid sandbox ID'],
    [route('', '80'), 'Invalid sandbox ID'],
    [route('../x', '80'), 'Invalid sandbox ID'],
    [route('a/b', '80'), 'Invalid sandbox ID'],
    [route('a@b', '80'), 'Invalid sandbox ID'],
    [route('a:b', '80'), 'Invalid sandbox ID'],
    [route('a#b', '80'), 'Invalid sandbox ID'],
    [route('a\nb', '80'), 'Invalid sandbox ID'],
    [route(id, ''), 'Invalid sandbox port'],
    [route(id, '0'), 'Invalid sandbox port'],
    [route(id, '65536'), 'Invalid sandbox port'],
    [route(id, '+80'), 'Invalid sandbox port'],
    [route(id, '80,81'), 'Invalid sandbox port'],
    [route(id, '8e1'), 'Invalid sandbox port'],
    [[...route(id, '80'), ...route(id, '80')], 'Invalid sandbox ID'],
    [[...route(id, '80'), 'E2B-SANDBOX-PORT', '81'], 'Invalid sandbox port'],
  ]
  for (const [headers, expected] of cases) {
    it(`${JSON.stringify(headers)} are ${expected}`, () => {
      assert.equal(short(ask({ host: '127.0.0.1', headers })), expected)
    })
  }

  it('are a preflight if a browser only asks about them', () => {
    const headers = ['Access-Control-Request-Headers', 'content-type,e2b-sandbox-id']
    assert.equal(short(ask({ host: 'localhost', method: 'OPTIONS', headers })), 'preflight')
    assert.equal(short(ask({ host: 'localhost', method: 'GET', headers })), 'api')
    assert.equal(short(ask({ host: `api.${domain}`, method: 'OPTIONS', headers })), 'api')
  })
})

describe('the request target', () => {
  const host = `80-${id}.${domain}`
  const cases: [url: string, method: string, path: string][] = [
    ['//evil.example/x', 'GET', '//evil.example/x'],
    ['/..%2f..', 'GET', '/..%2f..'],
    ['*', 'OPTIONS', '*'],
    [`http://${host}/a?b`, 'GET', '/a?b'],
    [`HTTPS://${host.toUpperCase()}?b`, 'GET', '/?b'],
    ['*', 'GET', 'Invalid request target'],
    ['http://evil.example/a', 'GET', 'Invalid request target'],
    [`http://80-iother.${domain}/a`, 'GET', 'Invalid request target'],
    [`http://evil@${host}/a`, 'GET', 'Invalid request target'],
    [`ftp://${host}/a`, 'GET', 'Invalid request target'],
    ['evil.example:80', 'GET', 'Invalid request target'],
  ]
  for (const [url, method, path] of cases) {
    it(`${method} ${url} is ${path}`, () => {
      const destination = ask({ host, url, method })
      assert.equal(destination.kind === 'sandbox' ? destination.path : short(destination), path)
    })
  }
})

describe('a signed file URL', () => {
  const cases: [ask: Ask, expected: string][] = [
    [{ host: 'localhost', url: '/files?path=a&signature=v1_x' }, 'signed-file'],
    [{ host: 'localhost', url: '/files?signature=v1_x', method: 'POST' }, 'signed-file'],
    [{ host: 'localhost', url: '/files?signature=v1_x', method: 'HEAD' }, 'signed-file'],
    [{ host: `api.${domain}`, url: '/files?signature=v1_x' }, 'signed-file'],
    [{ host: `sandbox.${domain}`, url: '/files?signature=v1_x' }, 'signed-file'],
    [{ host: `80-${id}.${domain}`, url: '/files?signature=v1_x' }, `${id}:80`],
    [{ host: 'localhost', url: '/files?signature=x', headers: route(id, '49983') }, `${id}:49983`],
    [{ host: 'localhost', url: '/files?path=a' }, 'api'],
    [{ host: 'localhost', url: '/files?xsignature=a' }, 'api'],
    [{ host: 'localhost', url: '/files/compose?signature=a' }, 'api'],
    [{ host: 'localhost', url: '/files?signature=a', method: 'DELETE' }, 'api'],
  ]
  for (const [asked, expected] of cases) {
    it(`${asked.method ?? 'GET'} ${asked.url} on ${asked.host} is ${expected}`, () => {
      assert.equal(short(ask(asked)), expected)
    })
  }
})

it('the domain is compared without its port', () => {
  assert.equal(domainName('Sandbox.Test:8443'), 'sandbox.test')
  assert.equal(domainName(''), null)
  assert.equal(domainName(null), null)
})

describe('the rule for hosts and routing headers', () => {
  it('agrees with a slow model on random input', () => {
    const seed = Date.now() % 2 ** 31
    const random = generator(seed)
    const until = performance.now() + 500
    let sandboxes = 0
    let round = 0
    for (; round < 60_000 && performance.now() < until; round++) {
      const asked = randomAsk(random)
      const expected = model(asked)
      assert.equal(short(ask(asked)), expected, `seed ${seed}: ${JSON.stringify(asked)}`)
      if (expected.includes(':')) sandboxes++
    }
    assert.ok(sandboxes > round / 500, `the input reached a sandbox only ${sandboxes} times in ${round}`)
  })
})

/** Written letter by letter, with no regular expression, so that it does not share the parser's mistakes. */
function model({ host = [], headers = [], domain: d = domain }: Ask): string {
  const hosts = [host].flat()
  if (hosts.length > 1) return 'Invalid host'
  let name = (hosts[0] ?? '').toLowerCase()
  const isDigit = (c: string | undefined) => c !== undefined && c >= '0' && c <= '9'
  const isLetter = (c: string) => c >= 'a' && c <= 'z'
  const isWord = (text: string) => text !== '' && [...text].every((c) => isDigit(c) || isLetter(c))
  let end = name.length
  while (end > 0 && isDigit(name[end - 1])) end--
  if (end > 0 && name[end - 1] === ':') name = name.slice(0, end - 1)
  if (isIPv6Text(name)) name = name.slice(1, -1)
  else if (name.endsWith('.')) name = name.slice(0, -1)
  const values = (wanted: string) =>
    headers.filter((_, i) => i % 2 === 1 && headers[i - 1]!.toLowerCase() === wanted)
  const judge = (sandboxID: string, port: string) => {
    if (!isWord(sandboxID)) return 'Invalid sandbox ID'
    const canonical = [...port].every(isDigit) && String(Number(port)) === port
    return canonical && Number(port) >= 1 && Number(port) <= 65535
      ? `${sandboxID}:${port}`
      : 'Invalid sandbox port'
  }
  let digits = 0
  while (isDigit(name[digits])) digits++
  if (digits > 0 && name[digits] === '-' && name !== d) {
    const labels = name.split('.')
    const allowed = (c: string) => isDigit(c) || isLetter(c) || c === '-' || c === '_'
    if (labels.length < 2 || labels.some((label) => label === '' || ![...label].every(allowed)))
      return 'Invalid host'
    const parts = labels[0]!.split('-')
    if (parts.length > 3 || (parts.length === 3 && !isWord(parts[2]!))) return 'Invalid sandbox ID'
    return judge(parts[1]!, parts[0]!)
  }
  const octet = (text: string) => String(Number(text)) === text && isWord(text) && Number(text) <= 255
  const isIPv4Text = name.split('.').length === 4 && name.split('.').every(octet)
  const named = name === 'localhost' || name === `sandbox.${d}`
  const shared = d === null || named || isIPv4Text || isIPv6Text(`[${name}]`)
  const ids = values('e2b-sandbox-id')
  const ports = values('e2b-sandbox-port')
  if (shared && ids.length + ports.length > 0) {
    if (ids.length === 0 || ports.length === 0) return 'missing header'
    if (ids.length > 1) return 'Invalid sandbox ID'
    if (ports.length > 1) return 'Invalid sandbox port'
    const parts = ids[0]!.split('-')
    if (parts.length > 2 || (parts.length === 2 && !isWord(parts[1]!))) return 'Invalid sandbox ID'
    return judge(parts[0]!, ports[0]!)
  }
  return d !== null && name === `sandbox.${d}` ? 'Invalid host' : 'api'
}

/** The URL parser is another's opinion on what an address in brackets is. */
function isIPv6Text(text: string): boolean {
  const inner = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : '?'
  return [...inner].every((c) => '0123456789abcdef:.'.includes(c)) && URL.canParse(`http://${text}/`)
}

function generator(seed: number): (below: number) => number {
  let state = seed || 1
  return (below) => {
    state = (Math.imul(state, 48271) >>> 0) % 0x7fffffff || 1
    return state % below
  }
}

const pieces = '49983 80 0 65535 65536 007 - - - . . : :80 :x iabc IABC zz9 _ %2e @ / [ ] ::1 \u00e9 \0'
  .split(' ')
  .concat([
    'localhost',
    '127.0.0.1',
    '[::1]',
    domain,
    `sandbox.${domain}`,
    `80-iabc.${domain}`,
    '80-iabc',
    ' ',
  ])

function randomAsk(random: (below: number) => number): Ask {
  const text = (max: number) => {
    let made = ''
    for (let n = random(max) + 1; n > 0; n--) made += pieces[random(pieces.length)]
    return made
  }
  const host = random(20) === 0 ? [text(3), text(3)] : text(random(3) === 0 ? 2 : 7)
  const headers: string[] = []
  const names = [
    'E2b-Sandbox-Id',
    'e2b-sandbox-port',
    'X-Forwarded-Host',
    'E2B-SANDBOX-ID',
    'E2b-Sandbox-Port',
  ]
  for (let n = random(4); n > 0; n--) headers.push(names[random(names.length)]!, text(2))
  return { host, headers, domain: random(3) === 0 ? null : domain }
}
