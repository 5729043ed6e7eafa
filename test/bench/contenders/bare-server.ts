/**
 * The least that moves bytes over HTTP: Node in a process of its own. /file stores what is posted and serves
 * it; /memory throws away what is posted and serves the same block again and again.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream, createWriteStream, mkdirSync, rmSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { cacheFolder } from '../../support/warren.ts'

export type BareServer = { url: string; close(): Promise<void> }

const blockBytes = 64 * 1024

/** `bytes`: how many /memory serves. */
export async function startBareServer(bytes: number): Promise<BareServer> {
  const folder = join(cacheFolder, `bench-bare-${process.pid}`)
  mkdirSync(folder, { recursive: true })
  const child = fork(import.meta.filename, [String(bytes), join(folder, 'file')])
  const [url] = (await once(child, 'message')) as [string]
  return {
    url,
    async close() {
      const ended = once(child, 'exit')
      child.kill()
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function* blocks(bytes: number): Generator<Buffer> {
  const block = Buffer.alloc(blockBytes, 'x')
  for (let sent = 0; sent < bytes; sent += block.length) yield block
}

function serve(bytes: number, file: string): void {
  const answer = async (request: http.IncomingMessage, response: http.ServerResponse) => {
    const stored = request.url === '/file'
    if (request.method === 'POST') {
      if (stored) await pipeline(request, createWriteStream(file))
      else for await (const _ of request);
      response.end()
    } else {
      const source = stored
        ? createReadStream(file, { highWaterMark: blockBytes })
        : Readable.from(blocks(bytes))
      await pipeline(source, response)
    }
  }
  const server = http.createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1', () => {
    process.send!(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  })
  process.once('disconnect', () => process.exit())
}

if (import.meta.main) serve(Number(process.argv[2]), process.argv[3]!)
