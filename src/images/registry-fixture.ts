/** A registry within the test: real sockets, hand-made content, and knobs for everything a hostile one may do. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createHttps } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { layerOf, type MadeLayer, sha256, tarOf } from './archive-fixture.ts'

type Handler = (request: IncomingMessage, response: ServerResponse) => boolean | undefined

export type FakeRegistry = {
  /** 127.0.0.1:port */
  host: string
  requests: { method: string; path: string; headers: IncomingMessage['headers'] }[]
  blobs: Map<string, Buffer>
  manifests: Map<string, { bytes: Buffer; mediaType: string }>
  /** Sees every request first; true means that it was answered. */
  intercept: Handler | undefined
  close(): Promise<void>
}

export const manifestType = 'application/vnd.oci.image.manifest.v1+json'
export const indexType = 'application/vnd.oci.image.index.v1+json'
const configType = 'application/vnd.oci.image.config.v1+json'

export async function startRegistry(tls?: { key: string; cert: string }): Promise<FakeRegistry> {
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? ''
    registry.requests.push({ method: request.method ?? '', path, headers: request.headers })
    if (registry.intercept?.(request, response)) return
    const [, kind, name] = /\/(manifests|blobs)\/(.+)$/.exec(path) ?? []
    const manifest = kind === 'manifests' ? registry.manifests.get(name!) : undefined
    const blob = kind === 'blobs' ? registry.blobs.get(name!) : undefined
    if (manifest) response.setHeader('Content-Type', manifest.mediaType).end(manifest.bytes)
    else if (blob) sendBlob(request, response, blob)
    else response.writeHead(path === '/v2/' ? 200 : 404).end()
  }
  const server = tls ? createHttps(tls, answer) : createHttp(answer)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const registry: FakeRegistry = {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    blobs: new Map(),
    manifests: new Map(),
    intercept: undefined,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  return registry
}

function sendBlob(request: IncomingMessage, response: ServerResponse, blob: Buffer): void {
  const [, from] = /^bytes=(\d+)-$/.exec(request.headers.range ?? '') ?? []
  if (from === undefined) return void response.end(blob)
  const range = `bytes ${from}-${blob.length - 1}/${blob.length}`
  response.writeHead(206, { 'Content-Range': range }).end(blob.subarray(Number(from)))
}

export type MadeImage = {
  layers: MadeLayer[]
  config?: object
  platform?: object
  change?: (manifest: Record<string, unknown>) => void
}

/** Puts an image there and returns the digest of its manifest. */
export function addImage(registry: FakeRegistry, tag: string, image: MadeImage): string {
  const arch = process.arch === 'x64' ? 'amd64' : process.arch
  const config = Buffer.from(
    JSON.stringify({
      os: 'linux',
      architecture: arch,
      ...image.platform,
      config: image.config ?? {},
      rootfs: { type: 'layers', diff_ids: image.layers.map(({ diffID }) => diffID) },
    }),
  )
  const add = (blob: Buffer, mediaType: string) => {
    registry.blobs.set(sha256(blob), blob)
    return { mediaType, digest: sha256(blob), size: blob.length }
  }
  const manifest: Record<string, unknown> = {
    schemaVersion: 2,
    mediaType: manifestType,
    config: add(config, configType),
    layers: image.layers.map(({ blob, mediaType }) => add(blob, mediaType)),
  }
  image.change?.(manifest)
  return addManifest(registry, tag, manifest, manifestType)
}

export function addManifest(
  registry: FakeRegistry,
  tag: string,
  manifest: object,
  mediaType: string,
): string {
  const bytes = Buffer.from(JSON.stringify(manifest))
  const digest = sha256(bytes)
  for (const name of [tag, digest]) registry.manifests.set(name, { bytes, mediaType })
  return digest
}

export const fileLayer = (name: string, content: string | Buffer): MadeLayer =>
  layerOf(tarOf([{ name, content }]))

export function selfSigned(): { key: string; cert: string } {
  const folder = mkdtempSync(join(tmpdir(), 'warren-cert-'))
  try {
    const files = ['-keyout', join(folder, 'key'), '-out', join(folder, 'cert')]
    const kind = [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-days',
      '2',
    ]
    const subject = [
      '-subj',
      '/CN=test',
      '-addext',
      'subjectAltName=IP:127.0.0.1,DNS:registry.test,DNS:localhost',
    ]
    execFileSync('openssl', [...kind, ...subject, ...files], { stdio: 'ignore' })
    const read = (name: string) => readFileSync(join(folder, name), 'utf8')
    return { key: read('key'), cert: read('cert') }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
