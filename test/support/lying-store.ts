/** A proxy in front of the object store of a test, which answers reads of some objects with something else. */
import { once } from 'node:events'
import { openSync, readSync, statSync } from 'node:fs'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'

/** What stands in the place of the bytes that were asked for. */
export type Lie =
  | 'absent'
  | 'cut off'
  | 'too short'
  | 'changed'
  | 'moved'
  | 'without end'
  | 'of another sandbox'
  | 'late'
  | 'never there'

export type LyingStore = {
  endpoint: string
  /** From now on, reads of objects whose key has this text are answered so. */
  lie(what: Lie, about: string): void
  becomeHonest(): void
  /** Number of answers that were lies since `lie`. */
  lies(): number
  close(): Promise<void>
}

type Asked = { request: IncomingMessage; response: ServerResponse }
const lateMs = 500

/** `folder` is where the store has its bucket as files; `otherKey` names the object that is given in place of others. */
export async function openLyingStore(
  storeEndpoint: string,
  folder: string,
  otherKey: () => string,
): Promise<LyingStore> {
  const { hostname, port } = new URL(storeEndpoint)
  let lie: { what: Lie; about: string } | undefined
  let lies = 0

  const pass = ({ request, response }: Asked) => {
    const { method, url, rawHeaders } = request
    const onwards = httpRequest(
      { host: hostname, port, method, path: url, headers: rawHeaders },
      (answer) => {
        response.writeHead(answer.statusCode!, answer.rawHeaders)
        answer.pipe(response)
      },
    )
    onwards.on('error', () => response.destroy())
    response.on('close', () => onwards.destroy())
    request.pipe(onwards)
  }

  /** The bytes of the file that stands for the object, at the place that was asked for. */
  function truth(path: string, { headers }: IncomingMessage): { bytes: Buffer; from: number; size: number } {
    const { size } = statSync(path)
    const [, first = '', last = ''] = /bytes=(\d*)-(\d*)/.exec(headers.range ?? '') ?? []
    const asked = first === '' ? (last === '' ? 0 : Math.max(0, size - Number(last))) : Number(first)
    const wanted = first === '' || last === '' ? size : Number(last) - asked + 1
    // An object that is shorter gives its beginning.
    const from = asked < size ? asked : 0
    const to = Math.min(size, from + wanted) - 1
    const bytes = Buffer.alloc(Math.max(0, to - from + 1))
    readSync(openSync(path, 'r'), bytes, 0, bytes.length, from)
    return { bytes, from, size }
  }

  function answerWith(what: Lie, { request, response }: Asked) {
    const key = decodeURIComponent(request.url!.split('?')[0]!).split('/').slice(2).join('/')
    const own = truth(join(folder, key), request)
    const headers = {
      etag: '"0123456789abcdef0123456789abcdef"',
      'content-range': `bytes ${own.from}-${own.from + own.bytes.length - 1}/${own.size}`,
      'content-length': own.bytes.length,
    }
    const send = (bytes: Buffer, more = {}) => {
      response.writeHead(request.headers.range ? 206 : 200, { ...headers, ...more })
      response.end(request.method === 'HEAD' ? undefined : bytes)
    }
    const half = Math.floor(own.bytes.length / 2)
    switch (what) {
      case 'absent':
        response.writeHead(404, { 'content-type': 'application/xml' })
        response.end(
          request.method === 'HEAD' ? '' : '<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>',
        )
        return
      case 'cut off':
        response.writeHead(206, headers)
        response.write(own.bytes.subarray(0, half), () => response.destroy())
        return
      case 'too short':
        return send(own.bytes.subarray(0, half), { 'content-length': half })
      case 'changed': {
        const bytes = Buffer.from(own.bytes)
        // Not in the head of a part, where reading it would fail anyhow.
        for (let at = 500; at < bytes.length; at += 1000) bytes[at]! ^= 1
        return send(bytes)
      }
      case 'moved':
        return send(Buffer.concat([own.bytes.subarray(half), own.bytes.subarray(0, half)]))
      case 'without end': {
        const { 'content-length': _, ...open } = headers
        response.writeHead(206, open)
        response.write(own.bytes)
        const chunk = Buffer.alloc(1024 * 1024)
        const more = () => {
          while (!response.destroyed && response.write(chunk));
        }
        response.on('drain', more)
        more()
        return
      }
      case 'of another sandbox': {
        const other = truth(join(folder, otherKey()), request)
        const { from, size, bytes } = other
        const range = `bytes ${from}-${from + bytes.length - 1}/${size}`
        return send(bytes, { 'content-range': range, 'content-length': bytes.length })
      }
      case 'late':
        setTimeout(() => pass({ request, response }), lateMs)
        return
      case 'never there':
    }
  }

  const server = createServer((request, response) => {
    response.on('error', () => {})
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    if (!lie || !isRead || !request.url!.includes(lie.about) || request.url!.includes('list-type'))
      return pass({ request, response })
    lies++
    answerWith(lie.what, { request, response })
  }).listen(0, hostname)
  await once(server, 'listening')
  return {
    endpoint: `http://${hostname}:${(server.address() as AddressInfo).port}`,
    lie(what, about) {
      lie = { what, about }
      lies = 0
    },
    becomeHonest() {
      lie = undefined
      server.closeAllConnections()
    },
    lies: () => lies,
    async close() {
      server.close().closeAllConnections()
      await once(server, 'close')
    },
  }
}
