/**
 * The root of the benchmark `work`, the same for all contenders: the base template, the programs that agents use, and what
 * its jobs read. Made once, with the network of the machine, and kept; the jobs themselves need no network.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { hostAcquireOptions } from '../../../src/app/setup/apt.ts'
import { makeBaseRoot } from '../../../src/app/setup/base-root.ts'
import { createProgress } from '../../../src/app/setup/progress.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import { cacheFolder, dataFolderOf, type Isolation, noWarmPool } from '../../support/warren.ts'

const here = join(import.meta.dirname, 'work')
const sources = ['set-up.sh', 'inputs.py']
const base = 'debootstrap:bookworm'
const packedBases = '/var/cache/warren'
const authorities = '/etc/ssl/certs/ca-certificates.crt'
const setUpWithinMs = 30 * 60_000

const workFolder = join(cacheFolder, 'work')
/** Which job runs is its argument. */
export const workProgram = readFileSync(join(here, 'work.py'), 'utf8')

/** Changes with what is put into it. */
export function workRoot(): string {
  const hash = createHash('sha256')
  for (const name of sources) hash.update(readFileSync(join(here, name)))
  return join(workFolder, `root-${hash.digest('hex').slice(0, 12)}`)
}

export async function makeWorkRoot(say: (text: string) => void): Promise<string> {
  const root = workRoot()
  if (existsSync(root)) return root
  say('  Installing what the jobs need, once; this takes some minutes …')
  await mkdir(workFolder, { recursive: true, mode: 0o711 })
  const partial = await mkdtemp(join(workFolder, 'partial-'))
  try {
    const { folder } = await makeBaseRoot(partial, base, packedBases, createProgress(process.stderr))
    await setUp(folder)
    for (const old of readdirSync(workFolder).filter((name) => /^(root-|templates$)/.test(name))) {
      await rm(join(workFolder, old), { recursive: true })
    }
    await rename(folder, root)
  } finally {
    await rm(partial, { recursive: true, force: true })
  }
  return root
}

/** In mounts and processes of its own, which end with it. */
const script = `set -e
mount --rbind /dev "$1/dev"
mount -t proc proc "$1/proc"
exec chroot "$@"`

async function setUp(root: string): Promise<void> {
  for (const name of sources) await copyFile(join(here, name), join(root, 'tmp', name))
  await copyFile('/etc/resolv.conf', join(root, 'etc/resolv.conf'))
  // The authorities of the machine, for a network that has one of its own.
  await copyFile(authorities, join(root, 'tmp/authorities.pem'))
  const trusted = ['PIP_CERT', 'SSL_CERT_FILE', 'NODE_EXTRA_CA_CERTS']
  const env = {
    ...Object.fromEntries(trusted.map((name) => [name, '/tmp/authorities.pem'])),
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => /_proxy$/i.test(name))),
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: '/root',
    LC_ALL: 'C.UTF-8',
  }
  const alone = ['--mount', '--pid', '--fork', '--kill-child', 'bash', '-c', script, 'bash', root]
  const options = await hostAcquireOptions()
  await runCommand('unshare', [...alone, 'sh', '/tmp/set-up.sh', ...options], {
    env: env as Record<string, string>,
    timeoutMs: setUpWithinMs,
  })
  await runCommand('truncate', ['--size', '0', join(root, 'etc/resolv.conf')])
}

/** The name of the Warrens whose base template is this root. */
export const workWarren = 'bench-work'

export const workSettings = (): Record<string, string> => ({
  ...noWarmPool,
  WARREN_BASE_IMAGE: `folder:${workRoot()}`,
  WARREN_DEFAULT_MEMORY_MB: '4096',
})

/** One copy of the root for both isolations, apart from the base templates that other benchmarks use. */
export function shareTemplates(isolation: Isolation): void {
  const [folder, templates] = [dataFolderOf(isolation, workWarren), join(workFolder, 'templates')]
  for (const path of [folder, templates]) mkdirSync(path, { recursive: true, mode: 0o711 })
  if (!existsSync(join(folder, 'templates'))) symlinkSync(templates, join(folder, 'templates'))
}
