/**
 * Where the tests of templates get images from: a registry with TLS and a password, a plain one that is a mirror,
 * and an image folder that stands for the well-known names.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { selfSigned } from '../../src/images/registry-fixture.ts'
import { registryLogin, startDockerRegistry, type TestRegistry, writeLayout } from './registry.ts'
import { busyboxRoot, debianRoot, muslRoot } from './roots.ts'
import { testMachine } from './test-machine.ts'

/** What the clients' own methods name, and what `$IMAGE` is in each. */
const wellKnown = {
  debian: 'debian:stable',
  ubuntu: 'ubuntu:latest',
  fedora: 'fedora:44',
  alpine: 'alpine:3.24',
  arch: 'archlinux:latest',
  python: 'python:3',
  node: 'node:lts',
  bun: 'oven/bun:latest',
} as const

export type ImageStores = {
  /** Needs the login of the tests; holds team/musl:1, which is mirrored.example/musl:1 without it. */
  closed: TestRegistry
  /** Stands for everything on docker.io but the names above; holds team/multi:zstd. */
  open: TestRegistry
  /** The digest of team/multi:zstd. */
  pinned: string
  /** For the Warren that shall find them. */
  settings: Record<string, string>
  close(): Promise<void>
}

export async function openImageStores(): Promise<ImageStores> {
  const home = mkdtempSync(join(tmpdir(), 'warren-places-'))
  const tls = selfSigned()
  const [layout, authority] = [join(home, 'layout'), join(home, 'authority.pem')]
  writeFileSync(authority, tls.cert)
  const registries: TestRegistry[] = []
  const close = async () => {
    for (const registry of registries) await registry.stop()
    rmSync(home, { recursive: true, force: true })
  }
  try {
    await writeImages(home, layout)
    const closed = await startDockerRegistry({ password: true, tls })
    registries.push(closed)
    const open = await startDockerRegistry()
    registries.push(open)
    await closed.push(layout, 'musl', 'team/musl:1')
    await open.push(layout, 'multi', 'hub/team/multi:zstd', '--all', '--dest-compress-format', 'zstd')
    const manifest = await fetch(`http://${open.host}/v2/hub/team/multi/manifests/zstd`, {
      headers: { Accept: 'application/vnd.oci.image.index.v1+json' },
    })
    const folder = `folder:${layout}`
    const { username, password } = registryLogin
    const mirrors = [
      `docker.io=${open.host}/hub`,
      `docker.io/library=${folder}`,
      `docker.io/oven=${folder}`,
      `mirrored.example=${username}:${password}@${closed.host}/team`,
    ]
    return {
      closed,
      open,
      close,
      pinned: manifest.headers.get('docker-content-digest') ?? '',
      settings: {
        WARREN_REGISTRY_MIRRORS: mirrors.join(','),
        WARREN_PRIVATE_REGISTRIES: closed.host,
        WARREN_EXTRA_CA: authority,
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function writeImages(work: string, layout: string): Promise<void> {
  // New in every run: what an earlier one fetched does not stand for it.
  const mark = join(work, 'mark')
  mkdirSync(join(mark, 'etc'), { recursive: true })
  writeFileSync(join(mark, 'etc/mark'), `${Date.now()}\n`)
  // As WORKDIR in a Dockerfile leaves it: root's.
  const home = join(work, 'home')
  mkdirSync(join(home, 'home/user'), { recursive: true })
  const debian = await debianRoot((await testMachine()).baseRootFolder)
  const [musl, busybox] = [await muslRoot(), await busyboxRoot()]
  const env = (image: string) => ({ config: { Env: [`IMAGE=${image}`] } })
  await writeLayout(layout, [
    ...Object.entries(wellKnown).map(([image, tag]) => ({
      tag,
      roots: [image === 'debian' ? debian : musl, mark],
      ...env(image),
    })),
    { tag: 'musl', roots: [musl, mark, home], ...env('musl') },
    { tag: 'multi', roots: [busybox, mark], architectures: ['arm64', 'amd64', 's390x'], ...env('multi') },
  ])
}
