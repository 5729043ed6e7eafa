/** Debian's own registry, on loopback, and images for it that are made from folders. */
import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  createReadStream,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { rename } from 'node:fs/promises'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../../src/lib/run-command.ts'
import { eventually } from './eventually.ts'
import { unpacked } from './roots.ts'
import { spawnBound } from './spawn-bound.ts'

export const registryLogin = { username: 'tester', password: 'secret-of-the-tests' }
/** A service account, as Google's registries know it: all of the text is the password of `_json_key`. */
export const serviceAccount = '{"type":"service_account","private_key":"of-the-tests"}'
const passwordFile = `tester:$2b$04$kYIF5duE1oVwK47.sTdUi.Kz/lU/NVstWUnKIqrN18QtRdpke18cm
_json_key:$2b$04$abcdefghijklmnopqrstuulr4Oqsg/nPVDfakdUaVjycb/33lr/A6
`

export type RegistryOptions = { password?: boolean; tls?: { key: string; cert: string } }
export type TestRegistry = {
  /** 127.0.0.1:port */
  host: string
  /** Copies an image of a layout there, with more options of skopeo. */
  push(layout: string, tag: string, name: string, ...options: string[]): Promise<void>
  stop(): Promise<void>
}

export async function startDockerRegistry({ password, tls }: RegistryOptions = {}): Promise<TestRegistry> {
  const port = await freePort()
  const program = join(await unpacked('docker-registry'), 'usr/bin/docker-registry')
  const folder = mkdtempSync(join(tmpdir(), 'warren-registry-'))
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const config = {
    version: 0.1,
    log: { level: 'error', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(folder, 'data') } },
    http: {
      addr: `127.0.0.1:${port}`,
      ...(tls && { tls: { certificate: file('cert', tls.cert), key: file('key', tls.key) } }),
    },
    ...(password && { auth: { htpasswd: { realm: 'tests', path: file('passwords', passwordFile) } } }),
  }
  const configFile = file('config.yml', JSON.stringify(config))
  const child = spawnBound(program, ['serve', configFile], { stdio: 'ignore' })
  const stop = () => stopped(child, folder)
  await eventually(() => listening(child, port)).catch(async (error) => {
    await stop()
    throw error
  })
  const login = password ? ['--dest-creds', `${registryLogin.username}:${registryLogin.password}`] : []
  return {
    host: `127.0.0.1:${port}`,
    async push(layout, tag, name, ...options) {
      const to = `docker://127.0.0.1:${port}/${name}`
      const access = ['--insecure-policy', 'copy', '--quiet', '--dest-tls-verify=false', ...login]
      await runCommand('skopeo', [...access, ...options, `oci:${layout}:${tag}`, to])
    },
    stop,
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

async function listening(child: ChildProcess, port: number): Promise<void> {
  if (child.exitCode !== null) throw new Error('the registry did not start')
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect').finally(() => socket.destroy())
}

async function stopped(child: ChildProcess, folder: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  rmSync(folder, { recursive: true, force: true })
}

export type ImageFromFolders = {
  tag: string
  /** A folder for each layer, lowest first. */
  roots: string[]
  config?: object
  /** One image per architecture, under one tag; this machine's alone if not given. */
  architectures?: string[]
}

/** Writes an OCI layout with layers that are not compressed. Owners above 100000 are taken for shifted ones. */
export async function writeLayout(folder: string, images: readonly ImageFromFolders[]): Promise<void> {
  mkdirSync(join(folder, 'blobs/sha256'), { recursive: true })
  const manifests: object[] = []
  for (const image of images) manifests.push(await addToLayout(folder, image))
  writeFileSync(join(folder, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }))
  writeFileSync(join(folder, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }))
}

async function addToLayout(folder: string, { tag, roots, config = {}, architectures }: ImageFromFolders) {
  const layers: Blob[] = []
  for (const root of roots) layers.push(await addLayer(folder, root))
  const own = process.arch === 'x64' ? 'amd64' : process.arch
  const manifestOf = (architecture: string) => {
    const rootfs = { type: 'layers', diff_ids: layers.map(({ digest }) => digest) }
    const described = addJSON(folder, 'config', { os: 'linux', architecture, config, rootfs })
    const manifest = { schemaVersion: 2, mediaType: `${oci}manifest.v1+json`, config: described, layers }
    return { ...addJSON(folder, 'manifest', manifest), platform: { os: 'linux', architecture } }
  }
  const annotations = { 'org.opencontainers.image.ref.name': tag }
  if (!architectures) return { ...manifestOf(own), annotations }
  const index = {
    schemaVersion: 2,
    mediaType: `${oci}index.v1+json`,
    manifests: architectures.map(manifestOf),
  }
  return { ...addJSON(folder, 'index', index), annotations }
}

type Blob = { mediaType: string; digest: string; size: number }
const oci = 'application/vnd.oci.image.'

function addJSON(folder: string, kind: string, value: object): Blob {
  const text = JSON.stringify(value)
  const digest = createHash('sha256').update(text).digest('hex')
  writeFileSync(join(folder, 'blobs/sha256', digest), text)
  return { mediaType: `${oci}${kind}.v1+json`, digest: `sha256:${digest}`, size: Buffer.byteLength(text) }
}

async function addLayer(folder: string, root: string): Promise<Blob> {
  const archive = join(folder, `layer-${readdirSync(folder).length}`)
  const maps = ['owner', 'group'].map((kind) => `--${kind}-map=${archive}.${kind}`)
  await writeOwnerMaps(root, archive)
  await runCommand('tar', [
    '-C',
    root,
    ...maps,
    '--numeric-owner',
    '--format=pax',
    '--xattrs',
    '-cf',
    archive,
    '.',
  ])
  for (const kind of ['owner', 'group']) rmSync(`${archive}.${kind}`)
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(archive, { highWaterMark: 1 << 20 })) hash.update(chunk)
  const digest = hash.digest('hex')
  const path = join(folder, 'blobs/sha256', digest)
  await rename(archive, path)
  return { mediaType: `${oci}layer.v1.tar`, digest: `sha256:${digest}`, size: statSync(path).size }
}

/** A root that sandboxes ran on has shifted owners; an image has none. */
async function writeOwnerMaps(root: string, archive: string): Promise<void> {
  for (const [kind, letter] of [
    ['owner', '%U'],
    ['group', '%G'],
  ] as const) {
    const { stdout } = await runCommand('find', [root, '-printf', `${letter}\\n`])
    const shifted = [...new Set(stdout.trim().split('\n'))].filter((id) => Number(id) >= 100_000)
    writeFileSync(
      `${archive}.${kind}`,
      shifted.map((id) => `+${id} image:${Number(id) - 100_000}\n`).join(''),
    )
  }
}
