/**
 * `bin/container-image ARCHIVE OUT`: makes a container image of a release on a plain Debian root. Uses no
 * registry: the image is an archive that Docker, podman and containerd load.
 */

import { createHash } from 'node:crypto'
import { mkdirSync, statSync, writeFileSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { asksForHelp, takeWords } from '../../cli/arguments.ts'
import { AppError } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import { sha256OfFile } from '../../lib/file-digest.ts'
import { runCommand } from '../../lib/run-command.ts'
import { unpackFolder } from '../setup/packed-folder.ts'
import { shippedPrograms } from '../setup/shipped.ts'
import { sameTar } from './same-bytes.ts'
import { makeSystemRoot } from './system-root.ts'

/** Where the release lies in the image. */
const installFolder = 'opt/warren'
const usage =
  'Usage:\n  bin/container-image ARCHIVE OUT\n\nARCHIVE is a release (npm run release), OUT the image to write, a tar file.'

type ImageParts = { root: string; version: string; out: string; createdAt: string }

async function makeImage(archive: string, out: string): Promise<void> {
  const version = /^warren-(.+)-\w+\.tar\.gz$/.exec(basename(archive))?.[1]
  if (version === undefined) {
    throw new AppError(
      'invalid_argument',
      `${archive} is not a release: its name must be warren-VERSION-ARCH.tar.gz.`,
    )
  }
  await inWork(async (root) => {
    await makeSystemRoot(root)
    await mkdir(join(root, installFolder), { recursive: true })
    await runCommand('tar', ['-xzf', archive, '-C', join(root, installFolder), '--strip-components=1'])
    const createdAt = new Date(systemClock.now()).toISOString()
    await finishImage({ root, version, out, createdAt })
  })
}

/** `system`: a packed Debian root. `folder`: that of the release. */
export async function makeImageOf({
  system,
  folder,
  ...image
}: Omit<ImageParts, 'root'> & { system: string; folder: string }): Promise<void> {
  await inWork(async (root) => {
    await unpackFolder(system, root, () => {})
    await mkdir(join(root, 'opt'), { recursive: true })
    await runCommand('cp', ['-a', folder, join(root, installFolder)])
    await finishImage({ root, ...image })
  })
}

async function inWork(work: (root: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'warren-image-'))
  try {
    await chmod(folder, 0o755)
    const root = join(folder, 'root')
    await mkdir(root)
    await work(root)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function finishImage(image: ImageParts): Promise<void> {
  const { root, version, createdAt } = image
  // The machine has the programs of Debian.
  await rm(join(root, installFolder, shippedPrograms), { recursive: true, force: true })
  // Lets bin/start-on-host distinguish images.
  await writeFile(join(root, 'etc/warren-image'), `${version} ${createdAt}\n`)
  await writeImage(image)
}

/** One layer in the OCI layout, with the list that Docker requires beside it. */
export async function writeImage({ root, version, out, createdAt }: ImageParts): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'warren-layout-'))
  try {
    const blobs = join(folder, 'blobs/sha256')
    mkdirSync(blobs, { recursive: true })
    const { diffID, ...layer } = await packLayer(root, blobs, createdAt)
    const config = writeBlob(blobs, {
      created: createdAt,
      architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
      os: 'linux',
      config: {
        Entrypoint: ['/opt/warren/bin/warren'],
        Cmd: ['start'],
        Env: ['PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'WARREN_HOST=0.0.0.0'],
        ExposedPorts: { '3000/tcp': {} },
        Volumes: { '/var/lib/warren': {} },
        Labels: { 'org.opencontainers.image.version': version },
      },
      rootfs: { type: 'layers', diff_ids: [diffID] },
      history: [{ created: createdAt, created_by: 'bin/container-image' }],
    })
    const types = 'application/vnd.oci.image'
    const manifest = writeBlob(blobs, {
      schemaVersion: 2,
      mediaType: `${types}.manifest.v1+json`,
      config: { mediaType: `${types}.config.v1+json`, ...config },
      layers: [{ mediaType: `${types}.layer.v1.tar+gzip`, ...layer }],
    })
    const reference = `warren:${version}`
    const annotations = {
      'org.opencontainers.image.ref.name': version,
      'io.containerd.image.name': `docker.io/library/${reference}`,
    }
    const index = {
      schemaVersion: 2,
      manifests: [{ mediaType: `${types}.manifest.v1+json`, ...manifest, annotations }],
    }
    const blobPath = ({ digest }: { digest: string }) => `blobs/${digest.replace(':', '/')}`
    const forDocker = [{ Config: blobPath(config), RepoTags: [reference], Layers: [blobPath(layer)] }]
    writeFileSync(join(folder, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }))
    writeFileSync(join(folder, 'index.json'), JSON.stringify(index))
    writeFileSync(join(folder, 'manifest.json'), JSON.stringify(forDocker))
    const parts = ['oci-layout', 'index.json', 'manifest.json', 'blobs']
    await runCommand('tar', [
      ...sameTar(createdAt),
      '--owner=0',
      '--group=0',
      '-cf',
      out,
      '-C',
      folder,
      ...parts,
    ])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

type Blob = { digest: string; size: number }

/** `diffID` names what is in the layer, the digest its compressed file. */
async function packLayer(root: string, blobs: string, createdAt: string): Promise<Blob & { diffID: string }> {
  const tar = join(blobs, 'layer.tar')
  const exact = ['--xattrs', '--xattrs-include=*']
  await runCommand('tar', [...sameTar(createdAt), ...exact, '-cf', tar, '-C', root, '.'])
  const diffID = `sha256:${await sha256OfFile(tar)}`
  await runCommand('gzip', ['-n', '-6', tar])
  const digest = await sha256OfFile(`${tar}.gz`)
  await rename(`${tar}.gz`, join(blobs, digest))
  return { diffID, digest: `sha256:${digest}`, size: statSync(join(blobs, digest)).size }
}

function writeBlob(blobs: string, document: object): Blob {
  const bytes = Buffer.from(JSON.stringify(document))
  const digest = createHash('sha256').update(bytes).digest('hex')
  writeFileSync(join(blobs, digest), bytes)
  return { digest: `sha256:${digest}`, size: bytes.length }
}

if (import.meta.main) {
  const args = process.argv.slice(2)
  if (asksForHelp(args)) process.stdout.write(`${usage}\n`)
  else {
    const [archive, out] = takeWords(args, ['ARCHIVE', 'OUT'], 'bin/container-image')
    await makeImage(resolve(archive!), resolve(out!))
    process.stdout.write(`${resolve(out!)}\n`)
  }
}
