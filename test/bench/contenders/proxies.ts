/**
 * Three proxies in front of one service, each in a process of its own: Warren's edge, the least that Node can do,
 * and nginx from Debian's package, which is unpacked and not installed.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { countRequests } from '../../../src/app/telemetry/requests.ts'
import { RouteTable } from '../../../src/core/sandbox/network/routes.ts'
import { createEdge } from '../../../src/edge/edge.ts'
import { errorText } from '../../../src/lib/app-error.ts'
import { silentLog } from '../../../src/lib/log.ts'
import { Measures } from '../../../src/lib/measures.ts'
import { unpacked } from '../../support/roots.ts'
import { cacheFolder } from '../../support/warren.ts'

export type ProxyProcess = { name: string; port: number; pid: number }
export type Proxies = { all: ProxyProcess[]; close(): Promise<void> }

export const names = { edge: 'edge', bare: 'bare Node proxy', nginx: 'nginx' } as const
/** What the edge goes by; the others do not care. */
export const host = '8000-ibench.bench.test'

/** `largeBytes`: how many /large serves. */
export async function startProxies(largeBytes: number, say: (text: string) => void): Promise<Proxies> {
  const folder = join(cacheFolder, `bench-proxies-${process.pid}`)
  mkdirSync(folder, { recursive: true })
  const children: ChildProcess[] = []
  const start = async (role: Role, ...args: number[]): Promise<{ port: number; pid: number }> => {
    // As the server runs.
    const execArgv = ['--max-semi-space-size=4', '--no-allocation-site-pretenuring']
    const child = fork(import.meta.filename, [role, ...args.map(String)], { execArgv })
    children.push(child)
    const [port] = (await once(child, 'message')) as [number]
    return { port, pid: child.pid! }
  }
  const service = await start('service', largeBytes)
  const all: ProxyProcess[] = [
    { name: names.edge, ...(await start('edge', service.port)) },
    { name: names.bare, ...(await start('bare', service.port)) },
  ]
  try {
    const nginx = await startNginx(folder, service.port)
    children.push(nginx.child)
    all.push({ name: names.nginx, port: nginx.port, pid: nginx.child.pid! })
  } catch (error) {
    say(`nginx is left out: ${errorText(error)}`)
  }
  return {
    all,
    async close() {
      for (const child of children) {
        const ended = once(child, 'exit')
        if (child.exitCode === null && child.kill()) await ended
      }
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function startNginx(
  folder: string,
  servicePort: number,
): Promise<{ child: ChildProcess; port: number }> {
  const program = join(await unpacked('nginx'), 'usr/sbin/nginx')
  const port = servicePort === 65535 ? 1024 : servicePort + 1
  const settings = join(folder, 'nginx.conf')
  writeFileSync(
    settings,
    `daemon off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/errors;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  map $http_upgrade $kind { default upgrade; '' ''; }
  upstream service { server 127.0.0.1:${servicePort}; keepalive 256; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:${port}; keepalive_requests 100000000;
    location / {
      proxy_pass http://service; proxy_http_version 1.1; proxy_buffering off;
      proxy_set_header Host $host; proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $kind;
    }
  }
}`,
  )
  const child = spawn(program, ['-p', folder, '-e', join(folder, 'errors'), '-c', settings], {
    stdio: 'inherit',
  })
  await Promise.race([
    untilListening(port),
    once(child, 'exit').then(() => Promise.reject(new Error('it ended at once'))),
    once(child, 'error').then(([error]) => Promise.reject(error)),
  ])
  return { child, port }
}

async function untilListening(port: number): Promise<void> {
  for (let tries = 0; ; tries++) {
    const socket = connect({ port, host: '127.0.0.1' })
    const opened = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (opened) return
    if (tries === 50) throw new Error('it does not listen')
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

type Role = 'service' | 'edge' | 'bare'

const roles: Record<Role, (argument: number) => http.Server> = { service, edge, bare }

function service(largeBytes: number): http.Server {
  const block = Buffer.alloc(256 * 1024, 'x')
  const answer = JSON.stringify({ message: 'x'.repeat(100) })
  const server = http.createServer((request, response) => {
    if (request.url !== '/large') {
      response.setHeader('Content-Type', 'application/json').end(answer)
      return
    }
    response.setHeader('Content-Length', largeBytes)
    let left = largeBytes
    const more = () => {
      while (left > 0) {
        const piece = left < block.length ? block.subarray(0, left) : block
        left -= piece.length
        if (!response.write(piece)) return void response.once('drain', more)
      }
      response.end()
    }
    more()
  })
  server.keepAliveTimeout = 60_000
  server.on('upgrade', (_request, socket) => {
    socket.on('error', () => {})
    socket.on('end', () => socket.end()).resume()
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
  })
  return server
}

function edge(servicePort: number): http.Server {
  const routes = new RouteTable()
  const endpoint = () => ({ host: '127.0.0.1', port: servicePort })
  const leadsTo = { endpoint, start: 'start' }
  routes.set({
    sandboxID: 'ibench',
    runID: 'run',
    teamID: 'team',
    ...leadsTo,
    agentToken: 'token',
    trafficToken: null,
  })
  // As the server has it: every request is counted.
  const { onFinished } = countRequests(new Measures(), 'off', silentLog)
  const made = createEdge({ routes, domain: 'bench.test', log: silentLog, onFinished })
  const server = http.createServer(made.serverOptions)
  made.attach(server, (_request, response) => response.writeHead(404).end())
  return server
}

function bare(servicePort: number): http.Server {
  const agent = new http.Agent({ keepAlive: true })
  const target = { host: '127.0.0.1', port: servicePort }
  const server = http.createServer((request, response) => {
    const { method, url: path, headers } = request
    const upstream = http.request({ ...target, agent, method, path, headers }, (incoming) => {
      response.writeHead(incoming.statusCode!, incoming.headers)
      incoming.pipe(response)
    })
    upstream.on('error', () => response.destroy())
    request.pipe(upstream)
  })
  server.on('upgrade', ({ rawHeaders, url }, client: Socket) => {
    const upstream = connect(target, () => {
      let head = `GET ${url} HTTP/1.1\r\n`
      for (let i = 0; i < rawHeaders.length; i += 2) head += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`
      upstream.write(`${head}\r\n`)
      upstream.pipe(client).pipe(upstream)
    })
    upstream.on('error', () => client.destroy())
    client.on('error', () => upstream.destroy())
  })
  return server
}

if (import.meta.main) {
  const server = roles[process.argv[2] as Role](Number(process.argv[3]))
  server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port))
  process.once('disconnect', () => process.exit())
}
