/** Images from Debian's own registry: what was put in is what comes out, to the owner and the bit. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import type { PulledImage, RegistryCredentials } from '../src/core/ports/images.ts'
import { prepareRoot } from '../src/drivers/host/disk/prepare-root.ts'
import { type ClosableImages, createImages, type ImagesOptions } from '../src/images/images.ts'
import { selfSigned } from '../src/images/registry-fixture.ts'
import { runCommand } from '../src/lib/run-command.ts'
import { registryLogin, startDockerRegistry, type TestRegistry, writeLayout } from './support/registry.ts'
import { busyboxRoot, debianRoot } from './support/roots.ts'
import { testMachine } from './support/test-machine.ts'

const ownerShift = 100_000
const login: RegistryCredentials = { type: 'registry', ...registryLogin }

suite('images of a real registry', () => {
  const home = mkdtempSync(join(tmpdir(), 'warren-images-'))
  const layout = join(home, 'layout')
  const tls = selfSigned()
  const opened: ClosableImages[] = []
  const registries: TestRegistry[] = []
  let debian = ''
  let open: TestRegistry
  let closed: TestRegistry

  before(async () => {
    debian = await debianRoot((await testMachine()).baseRootFolder)
    // Layers come out with shifted owners, so what they are held against has them too.
    await prepareRoot(debian, ownerShift)
    const above = join(home, 'above')
    mkdirSync(join(above, 'etc'), { recursive: true })
    writeFileSync(join(above, 'etc/hostname'), 'made\n')
    // How an archive says that the layer removes the file.
    writeFileSync(join(above, 'etc/.wh.passwd'), '')
    await writeLayout(layout, [
      { tag: 'debian', roots: [debian], config: { Env: ['LANG=C'], User: 'user', WorkingDir: '/srv' } },
      { tag: 'busybox', roots: [await busyboxRoot(), above], architectures: ['arm64', 'amd64', 's390x'] },
    ])
    open = await startDockerRegistry()
    closed = await startDockerRegistry({ password: true, tls })
    registries.push(open, closed)
    await open.push(layout, 'debian', 'team/debian:gzip')
    await open.push(layout, 'debian', 'team/debian:zstd', '--dest-compress-format', 'zstd')
    for (const registry of registries) await registry.push(layout, 'busybox', 'busybox:1', '--all')
    await open.push(layout, 'busybox', 'busybox:docker', '--format', 'v2s2')
  })

  after(async () => {
    for (const images of opened) await images.close()
    for (const registry of registries) await registry.stop()
    rmSync(home, { recursive: true, force: true })
  })

  async function pullNew(
    reference: string,
    credentials?: RegistryCredentials,
    options: Partial<ImagesOptions> = {},
  ) {
    const folder = join(home, `store-${opened.length}`)
    const images = await createImages({
      folder,
      ownerShift,
      allowPrivateRegistries: ['127.0.0.1'],
      ...options,
    })
    opened.push(images)
    const lines: string[] = []
    const { signal } = new AbortController()
    const pull = (name: string): Promise<PulledImage> =>
      images.pull(name, {
        owner: 'tests',
        onProgress: (line) => lines.push(line),
        signal,
        ...(credentials && { credentials }),
      })
    const pulled = await pull(reference)
    return { pulled, folders: images.layerFolders(pulled.layers), lines, pull }
  }

  for (const compression of ['gzip', 'zstd']) {
    test(`a Debian root in a ${compression} layer is unpacked unchanged`, async () => {
      const { pulled, folders } = await pullNew(`${open.host}/team/debian:${compression}`)
      assert.deepEqual(pulled.config, { env: { LANG: 'C' }, user: 'user', workdir: '/srv' })
      assert.equal(folders.length, 1)
      assert.deepEqual(await inventory(folders[0]!), await inventory(debian))
      await runCommand('diff', ['-rq', '--no-dereference', folders[0]!, debian])
    })
  }

  test('of a multi-arch image the layers for this machine are pulled, and the same by digest', async () => {
    const { pulled, folders, pull, lines } = await pullNew(`${open.host}/busybox:1`)
    assert.equal(folders.length, 2)
    assert.deepEqual(await pull(`${open.host}/busybox@${pulled.digest}`), pulled)
    assert.deepEqual((await pull(`${open.host}/busybox:docker`)).layers, pulled.layers)
    assert.equal(lines.filter((line) => line.endsWith('unpacked')).length, 2)
  })

  test('a registry with TLS and a password serves its images to a client with the password', async () => {
    const trusting = { certificateAuthorities: [tls.cert] }
    assert.equal((await pullNew(`${closed.host}/busybox:1`, login, trusting)).folders.length, 2)
    const wrong = { ...login, password: 'wrong' }
    for (const credentials of [undefined, wrong]) {
      await assert.rejects(pullNew(`${closed.host}/busybox:1`, credentials, trusting), {
        code: 'permission_denied',
      })
    }
    await assert.rejects(pullNew(`${closed.host}/busybox:1`, login), /has no valid certificate/)
  })

  test('a mirror and an image folder replace the public registry', async () => {
    const byMirror = await pullNew('busybox:1', undefined, { mirrors: { busybox: `${open.host}/busybox` } })
    const byFolder = await pullNew('debian:busybox', undefined, { mirrors: { debian: `folder:${layout}` } })
    assert.deepEqual(byFolder.pulled.layers, byMirror.pulled.layers)
  })

  test('layers can be stacked, and removals in an upper layer take effect', async () => {
    const { folders } = await pullNew(`${open.host}/busybox:1`)
    const merged = join(home, 'merged')
    mkdirSync(merged)
    const lower = [...folders].reverse().join(':')
    await runCommand('mount', ['-t', 'overlay', 'overlay', '-o', `ro,lowerdir=${lower}`, merged])
    try {
      const { stdout } = await runCommand('ls', [join(merged, 'etc')])
      assert.deepEqual(stdout.trim().split('\n'), ['group', 'hostname'])
    } finally {
      await runCommand('umount', [merged])
    }
  })
})

/** Names, kinds, modes, owners, sizes, times and targets; sizes of folders depend on the file system. */
async function inventory(root: string): Promise<string[]> {
  const format = '%P %y %m %U %G %n %Ts %l'
  const files = await runCommand('find', [
    root,
    '(',
    '-type',
    'f',
    '-printf',
    `${format} %s\\n`,
    ')',
    '-o',
    '-printf',
    `${format}\\n`,
  ])
  return files.stdout.trim().split('\n').sort()
}
