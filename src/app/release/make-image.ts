/**
 * `bin/container-image ARCHIVE OUT`: makes a container image of a release on a plain Debian root. Uses no
 * registry: debootstrap makes the root, and the image is an archive that Docker, podman and containerd load.
 */
import { createHash } from 'node:crypto'
import {
  chmodSync,
  createReadStream,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { asksForHelp, takeWords } from '../../cli/arguments.ts'
import { AppError } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import { runCommand } from '../../lib/run-command.ts'
import { withoutPassword } from '../setup/apt.ts'
import { debootstrap, inRoot } from '../setup/base-root.ts'
import { containerNeed, systemNeeds } from '../setup/system-packages.ts'

const debianRelease = 'bookworm'
/** bin/start-on-host runs this program on a host outside of the image, without the image's libraries. */
const programOnHosts = 'busybox-static'
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
  const work = mkdtempSync(join(tmpdir(), 'warren-image-'))
  const root = join(work, 'root')
  try {
    mkdirSync(root)
    chmodSync(work, 0o755)
    const { main } = await debootstrap(root, debianRelease, () => {})
    const packages = [...[...systemNeeds, containerNeed].map((need) => need.package), programOnHosts]
    await runInRoot(
      root,
      `apt-get update -q && apt-get install -y -q --no-install-recommends ${packages.join(' ')} && apt-get clean && rm -rf /var/lib/apt/lists/*`,
    )
    // A password belongs to this machine, not to everybody who has the image.
    writeFileSync(join(root, 'etc/apt/sources.list'), `deb ${withoutPassword(main)} ${debianRelease} main\n`)
    mkdirSync(join(root, 'opt/warren'), { recursive: true })
    await runCommand('tar', ['-xzf', archive, '-C', join(root, 'opt/warren'), '--strip-components=1'])
    const createdAt = new Date(systemClock.now()).toISOString()
    // Lets bin/start-on-host distinguish images.
    writeFileSync(join(root, 'etc/warren-image'), `${version} ${createdAt}\n`)
    await writeImage({ root, version, out, createdAt })
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

async function runInRoot(root: string, script: string): Promise<void> {
  const [program, ...args] = [...inRoot(root), 'sh', '-euc', script]
  await runCommand(program!, args)
}

/** One layer in the OCI layout, with the list that Docker requires beside it. */
export async function writeImage({ root, version, out, createdAt }: ImageParts): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'warren-layout-'))
  try {
    const blobs = join(folder, 'blobs/sha256')
    mkdirSync(blobs, { recursive: true })
    const layer = await moveToBlob(blobs, await packRoot(root, join(folder, 'layer.tar')))
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
      rootfs: { type: 'layers', diff_ids: [layer.digest] },
      history: [{ created: createdAt, created_by: 'bin/container-image' }],
    })
    const types = 'application/vnd.oci.image'
    const manifest = writeBlob(blobs, {
      schemaVersion: 2,
      mediaType: `${types}.manifest.v1+json`,
      config: { mediaType: `${types}.config.v1+json`, ...config },
      layers: [{ mediaType: `${types}.layer.v1.tar`, ...layer }],
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
    await runCommand('tar', ['-cf', out, '-C', folder, 'oci-layout', 'index.json', 'manifest.json', 'blobs'])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

type Blob = { digest: string; size: number }

async function packRoot(root: string, file: string): Promise<string> {
  await runCommand('tar', ['--numeric-owner', '--sort=name', '-cf', file, '-C', root, '.'])
  return file
}

async function moveToBlob(blobs: string, file: string): Promise<Blob> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file)) hash.update(chunk)
  const digest = hash.digest('hex')
  renameSync(file, join(blobs, digest))
  return { digest: `sha256:${digest}`, size: statSync(join(blobs, digest)).size }
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
