/** For tests: a DNS server with a zone of the test's own, over UDP and TCP, that can be told to misbehave. */
import { createSocket, type RemoteInfo } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

type Zone = Map<string, string[]>

export type TestDns = {
  server: string
  /** Addresses of names; `cname:other` leads on, `txt:…` is a text. A name that is not in it does not exist. */
  zone: Zone
  asked: { name: string; type: number }[]
  /** None unless said, so that a test can change its mind. */
  ttlSeconds: number
  /** Changes or drops answers before they go out. */
  tamper: (answer: Buffer, query: Buffer) => Buffer | Buffer[] | null
  close(): Promise<void>
}

const types = { A: 1, CNAME: 5, TXT: 16, AAAA: 28 }

export async function startDns(address: string): Promise<TestDns> {
  const tcp = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (data) => {
      const answer = answerTo(dns, data.subarray(2))
      const length = Buffer.alloc(2)
      length.writeUInt16BE(answer.length)
      socket.end(Buffer.concat([length, answer]))
    })
  })
  await once(tcp.listen(0, address), 'listening')
  const { port } = tcp.address() as AddressInfo
  const udp = createSocket('udp4')
  udp.bind(port, address)
  await once(udp, 'listening')
  const dns: TestDns = {
    server: `${address}:${port}`,
    zone: new Map(),
    asked: [],
    ttlSeconds: 0,
    tamper: (answer) => answer,
    async close() {
      udp.close()
      tcp.close()
      await once(tcp, 'close')
    },
  }
  udp.on('message', (query: Buffer, from: RemoteInfo) => {
    const whole = answerTo(dns, query)
    const cut = Buffer.from(whole.subarray(0, 12 + questionOf(query).length))
    cut.writeUInt16BE(cut.readUInt16BE(2) | 0x0200, 2)
    for (const at of [6, 8, 10]) cut.writeUInt16BE(0, at)
    const sent = dns.tamper(whole.length > 1232 ? cut : whole, query)
    for (const answer of sent === null ? [] : [sent].flat()) udp.send(answer, from.port, from.address)
  })
  return dns
}

/** A question in wire form, with the extension record when `edns` says how much fits. */
export function dnsQuery(name: string, type: number = types.A, id = 7, edns?: number): Buffer {
  const head = Buffer.from([id >> 8, id & 255, 1, 0, 0, 1, 0, 0, 0, 0, 0, edns ? 1 : 0])
  const kind = Buffer.from([type >> 8, type & 255, 0, 1])
  const extension = edns ? Buffer.from([0, 0, 41, edns >> 8, edns & 255, 0, 0, 0, 0, 0, 0]) : Buffer.alloc(0)
  return Buffer.concat([head, encodeName(name), kind, extension])
}

export type DnsAnswer = { id: number; code: number; truncated: boolean; addresses: string[]; records: number }

/** Reads the addresses from the end of the message, where the stand-in puts them. */
export function readDnsAnswer(message: Buffer): DnsAnswer {
  const flags = message.readUInt16BE(2)
  const records = message.readUInt16BE(6)
  const addresses: string[] = []
  const marker = Buffer.from([0, types.A, 0, 1, 0, 0, 0, 0, 0, 4])
  for (let at = message.indexOf(marker, 12); at >= 0; at = message.indexOf(marker, at + 1)) {
    addresses.push([...message.subarray(at + 10, at + 14)].join('.'))
  }
  return {
    id: message.readUInt16BE(0),
    code: flags & 15,
    truncated: (flags & 0x0200) !== 0,
    addresses,
    records,
  }
}

function questionOf(query: Buffer): Buffer {
  let end = 12
  while (query[end] !== 0) end += query[end]! + 1
  return query.subarray(12, end + 5)
}

function answerTo({ zone, asked, ttlSeconds }: TestDns, query: Buffer): Buffer {
  const question = questionOf(query)
  const labels: string[] = []
  for (let at = 0; question[at] !== 0; at += question[at]! + 1) {
    labels.push(question.toString('latin1', at + 1, at + 1 + question[at]!))
  }
  const type = question.readUInt16BE(question.length - 4)
  const name = labels.join('.').toLowerCase()
  asked.push({ name, type })
  const records: Buffer[] = []
  const seen = new Set<string>()
  for (let owner: string | undefined = name; owner !== undefined && !seen.has(owner); ) {
    seen.add(owner)
    let next: string | undefined
    for (const value of zone.get(owner) ?? []) {
      const [kind, rest = ''] = value.split(/:(.*)/s)
      if (kind === 'cname') {
        records.push(record(owner, types.CNAME, encodeName(rest), ttlSeconds))
        next = rest
      } else if (kind === 'txt' && type === types.TXT) {
        records.push(
          record(
            owner,
            types.TXT,
            Buffer.concat([Buffer.from([rest.length]), Buffer.from(rest)]),
            ttlSeconds,
          ),
        )
      } else if (!value.includes(':') && type === types.A) {
        records.push(record(owner, types.A, Buffer.from(value.split('.').map(Number)), ttlSeconds))
      }
    }
    owner = next
  }
  const head = Buffer.alloc(12)
  query.copy(head, 0, 0, 2)
  head.writeUInt16BE(0x8180 | (zone.has(name) ? 0 : 3), 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(records.length, 6)
  return Buffer.concat([head, question, ...records])
}

function record(owner: string, type: number, data: Buffer, ttlSeconds: number): Buffer {
  const head = Buffer.from([
    type >> 8,
    type & 255,
    0,
    1,
    0,
    0,
    0,
    ttlSeconds,
    data.length >> 8,
    data.length & 255,
  ])
  return Buffer.concat([encodeName(owner), head, data])
}

function encodeName(name: string): Buffer {
  if (name === '') return Buffer.from([0])
  const labels = name.split('.').map((label) => {
    const bytes = Buffer.from(label, 'latin1')
    return Buffer.concat([Buffer.from([bytes.length]), bytes])
  })
  return Buffer.concat([...labels, Buffer.from([0])])
}
