/**
 * The way through the edge beside a bare Node proxy and nginx, with the same service behind all of them: many
 * small requests, one large answer, and the memory of WebSockets that do nothing.
 */
import { once } from 'node:events'
import http from 'node:http'
import { connect, type Socket } from 'node:net'
import { delay } from '../../../src/lib/clock.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { host, names, type ProxyProcess, startProxies } from '../contenders/proxies.ts'
import { type Contender, percentile, type Row, rowName, takeTurns, timed } from '../measure.ts'
import { privateMB, residentMB } from '../processes.ts'
import { medianOf, type Report, type Target } from '../report.ts'

const connections = 32
const webSockets = 1000
const mebibyte = 1024 * 1024

/** Sizes are for a count of 20; less makes it shorter. */
export async function edge(
  machine: BenchMachine,
  { rounds, count }: { rounds: number; count: number },
): Promise<Report> {
  const share = Math.min(1, count / 20)
  const requests = Math.round(20_000 * share)
  const largeMiB = Math.round(1024 * share)
  const idle = Math.round(webSockets * share)
  const proxies = await startProxies(largeMiB * mebibyte, machine.say)
  const steps = { many: `${requests} requests`, p99: 'p99 of a request', large: `${largeMiB} MiB` }
  try {
    const contenders: Contender[] = proxies.all.map(({ name, port }) => ({
      name,
      async sample() {
        const [many, latencies] = await timed(() => ask(port, requests))
        const [large, received] = await timed(() => download(port))
        if (received !== largeMiB * mebibyte) throw new Error(`${received} bytes came`)
        return { [steps.many]: many, [steps.p99]: percentile(latencies, 99), [steps.large]: large }
      },
    }))
    // First, while they have done nothing else.
    const memory: Row[] = []
    for (const proxy of proxies.all) memory.push(...(await memoryOfIdle(proxy, idle, machine.signal)))
    const onRound = (done: number) => machine.say(`  round ${done} of ${rounds}`)
    const rows = [...(await takeTurns(contenders, { rounds, signal: machine.signal, onRound })), ...memory]
    const target = (step: string, other: string, atMost: number): Target => ({
      promise: `edge, ${step} against ${other}`,
      value: medianOf({ rows }, rowName(names.edge, step)) / medianOf({ rows }, rowName(other, step)),
      atMost,
      unit: ' ×',
    })
    return {
      title: `Through the edge, ${connections} connections`,
      rows,
      references: [
        { label: names.bare, contender: names.bare },
        { label: names.nginx, contender: names.nginx },
      ],
      targets: [
        target(steps.many, names.bare, 1.05),
        target(steps.p99, names.bare, 2),
        target(steps.many, names.nginx, 4),
      ],
    }
  } finally {
    await proxies.close()
  }
}

/** How long each request took, in milliseconds. By hand: a client of more comfort would be what is measured. */
async function ask(port: number, requests: number): Promise<number[]> {
  const latencies: number[] = []
  let left = requests
  const question = `GET /small HTTP/1.1\r\nHost: ${host}\r\nAccept: */*\r\nUser-Agent: bench\r\n\r\n`
  const one = async () => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    while (left-- > 0) {
      const start = performance.now()
      socket.write(question)
      await wholeAnswer(socket)
      latencies.push(performance.now() - start)
    }
    socket.destroy()
  }
  await Promise.all(Array.from({ length: connections }, one))
  return latencies
}

function wholeAnswer(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let text = ''
    const done = (error?: Error) => {
      socket.off('data', onChunk).off('close', gone)
      if (error) reject(error)
      else resolve()
    }
    const gone = () => done(new Error('the connection closed'))
    const onChunk = (chunk: Buffer) => {
      text += chunk.toString('latin1')
      const end = text.indexOf('\r\n\r\n')
      if (end < 0) return
      if (!text.startsWith('HTTP/1.1 200')) return done(new Error(text.slice(0, 100)))
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1])
      if (!(length >= 0)) return done(new Error('the answer does not tell its length'))
      if (text.length >= end + 4 + length) done()
    }
    socket.on('data', onChunk).on('close', gone)
  })
}

async function download(port: number): Promise<number> {
  const request = http.get({ port, host: '127.0.0.1', path: '/large', headers: { host }, agent: false })
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  let received = 0
  response.on('data', (chunk: Buffer) => {
    received += chunk.length
  })
  await once(response, 'end')
  return received
}

async function memoryOfIdle(
  { name, port, pid }: ProxyProcess,
  count: number,
  signal: AbortSignal,
): Promise<Row[]> {
  // Nginx works in a child of the process that was started.
  if (name === names.nginx) return []
  const measure = () => ({ resident: residentMB(pid), written: privateMB(pid) })
  const before = measure()
  const sockets = new Set<Socket>()
  const headers = { host, Connection: 'Upgrade', Upgrade: 'websocket' }
  try {
    while (sockets.size < count) {
      const request = http.get({ port, host: '127.0.0.1', path: '/socket', headers, agent: false })
      const [, socket] = (await once(request, 'upgrade')) as [unknown, Socket]
      sockets.add(socket.on('error', () => {}))
    }
    await delay(3000, signal)
    const after = measure()
    const row = (what: string, value: number): Row => ({
      name: rowName(name, `${count} idle WebSockets, ${what}`),
      unit: 'MB',
      samples: [value],
      failures: [],
    })
    return [row('resident', after.resident - before.resident), row('private', after.written - before.written)]
  } finally {
    for (const socket of sockets) socket.destroy()
  }
}
