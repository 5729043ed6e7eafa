/**
 * A machine as its owner gets it: a small Debian or Ubuntu made by debootstrap, in namespaces of its own, with cgroups of
 * its own and no network.
 */
import { type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { delay } from '../../src/lib/clock.ts'
import { repoFolder } from './warren.ts'

const script = join(import.meta.dirname, 'bare-machine.sh')
const plainPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

const ubuntuReleases = ['noble']

/** A root that debootstrap made with these packages more than the least, kept between runs. */
export function bareRoot(release: string, more: readonly string[] = []): string {
  const folder = join(repoFolder, '.cache/bare', [release, ...more].join('-'))
  if (existsSync(folder)) return folder
  mkdirSync(dirname(folder), { recursive: true })
  const partial = `${folder}.${process.pid}`
  const options = ['--variant=minbase', ...(more.length > 0 ? [`--include=${more.join(',')}`] : [])]
  const ubuntu = ubuntuReleases.includes(release)
    ? ['http://archive.ubuntu.com/ubuntu', '/usr/share/debootstrap/scripts/gutsy']
    : []
  // Debian has no keys of Ubuntu. Nothing but a test runs in this root.
  if (ubuntu.length > 0) options.push('--no-check-gpg')
  const made = spawnSync('debootstrap', [...options, release, partial, ...ubuntu], { encoding: 'utf8' })
  if (made.status !== 0) throw new Error(`debootstrap ${release} failed: ${made.stdout.slice(-2000)}`)
  renameSync(partial, folder)
  return folder
}

export class BareMachine {
  readonly root: string
  readonly #group: string
  readonly #init: ReturnType<typeof spawn>
  #pid = 0

  /** Works on a copy of the root, which ends with the machine. */
  static async start(folder: string, from: string): Promise<BareMachine> {
    const root = join(folder, `machine-${process.pid}-${Math.floor(performance.now())}`)
    const { status, stderr } = spawnSync('cp', ['-a', from, root], { encoding: 'utf8' })
    if (status !== 0) throw new Error(stderr)
    const machine = new BareMachine(root)
    await machine.#ready()
    return machine
  }

  private constructor(root: string) {
    this.root = root
    this.#group = `warren-bare-${process.pid}-${root.split('-').at(-1)}`
    this.#init = spawn(script, [root, this.#group], { stdio: ['ignore', 'pipe', 'inherit'] })
  }

  async #ready(): Promise<void> {
    const [said] = await Promise.race([once(this.#init.stdout!, 'data'), once(this.#init, 'exit')])
    if (String(said).trim() !== 'ready') throw new Error(`The machine did not start: ${said}`)
    // unshare's child is the first process of the machine.
    const children = `/proc/${this.#init.pid}/task/${this.#init.pid}/children`
    this.#pid = Number(readFileSync(children, 'utf8').trim())
  }

  /** The words of `nsenter` that bring a program onto the machine. */
  get enter(): string[] {
    const spaces = ['--mount', '--net', '--pid', '--ipc', '--uts', '--cgroup', '--root']
    const enterGroup = `for top in /sys/fs/cgroup /sys/fs/cgroup/*; do
  if [ -d $top/${this.#group} ]; then echo $$ >$top/${this.#group}/cgroup.procs; fi
done
exec "$@"`
    const nsenter = ['nsenter', `--target=${this.#pid}`, ...spaces]
    return ['sh', '-c', enterGroup, 'sh', ...nsenter, 'env', '-i', `PATH=${plainPath}`, 'HOME=/root']
  }

  /** Runs a shell script and returns what it printed. */
  run(command: string, settings: Record<string, string> = {}): SpawnSyncReturns<string> {
    const [program, ...args] = this.enter
    const named = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
    return spawnSync(program!, [...args, ...named, 'sh', '-euc', `cd /\n${command}`], { encoding: 'utf8' })
  }

  /** CPU time that everything on it has used, which does not depend on what else this machine does. */
  get cpuSeconds(): number {
    const [v1, v2] = ['cpuacct', ''].map((kind) => join('/sys/fs/cgroup', kind, this.#group)) as [
      string,
      string,
    ]
    // It counts groups below it too.
    if (existsSync(v1)) return Number(readFileSync(join(v1, 'cpuacct.usage'), 'utf8')) / 1e9
    return Number(/^usage_usec (\d+)/.exec(readFileSync(join(v2, 'cpu.stat'), 'utf8'))![1]) / 1e6
  }

  /** Everything that runs on it ends with its first process. */
  async end(): Promise<void> {
    const ended = once(this.#init, 'exit')
    this.#init.kill('SIGKILL')
    await ended
    for (let round = 0; this.#groups().length > 0 && round < 100; round++) {
      for (const group of this.#groups()) tryTo(() => rmdirSync(group))
      await delay(50)
    }
    rmSync(this.root, { recursive: true, force: true })
  }

  /** The innermost first. */
  #groups(): string[] {
    const tops = ['/sys/fs/cgroup', ...readdirSync('/sys/fs/cgroup').map((name) => `/sys/fs/cgroup/${name}`)]
    const own = tops.map((top) => join(top, this.#group)).filter((path) => existsSync(path))
    return own.flatMap((path) => {
      const { stdout } = spawnSync('find', [path, '-depth', '-type', 'd'], { encoding: 'utf8' })
      return stdout.split('\n').filter((line) => line !== '')
    })
  }
}

function tryTo(work: () => void): void {
  try {
    work()
  } catch {
    // Its processes are still ending.
  }
}
