/**
 * Docker as a peer: a daemon of our own, in network and mount namespaces of its own, so that its bridge,
 * firewall rules and mounts stay off the machine and end with it. Its packages are unpacked, not installed.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, openSync, rmSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { delay } from '../../../src/lib/clock.ts'
import { withDeadline } from '../../../src/lib/deadline.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import { cacheFolder } from '../../support/warren.ts'
import type { HeldContainer } from './raw-runtime.ts'

export type Docker = {
  version: string
  /** `docker run --rm` on the bridge: milliseconds until the first output and until the end. */
  run(command: readonly string[]): Promise<{ firstOutputMs: number; exitMs: number }>
  /** A container that does nothing, to run commands in. */
  hold(): Promise<HeldContainer>
  close(): Promise<void>
}

const image = 'warren-bench'
const packages = ['docker.io', 'containerd', 'docker-cli']

export async function startDocker(rootFolder: string): Promise<Docker> {
  const programs = await unpackDocker()
  const folder = join(cacheFolder, `bench-docker-${process.pid}`)
  const socket = `unix://${join(folder, 'docker.sock')}`
  const cgroup = `/warren-bench-${process.pid}`
  const env = { PATH: `${programs.join(':')}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin` }
  mkdirSync(folder, { recursive: true })
  const log = openSync(join(folder, 'dockerd.log'), 'a')
  const places = ['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'run')]
  const names = ['--pidfile', join(folder, 'dockerd.pid'), '--cgroup-parent', cgroup, '--host', socket]
  // A containerd of the machine's own, if there is one, must not meet these containers.
  const containerd = ['--containerd-namespace', image, '--containerd-plugins-namespace', `plugins.${image}`]
  const daemon = spawn('unshare', ['--net', '--mount', 'dockerd', ...places, ...names, ...containerd], {
    env,
    stdio: ['ignore', log, log],
    detached: true,
  })
  const close = () => stopDocker(daemon, folder, cgroup)
  const docker = (...args: string[]) => runCommand('docker', ['--host', socket, ...args], { env })
  try {
    const version = await untilServing(daemon, folder, docker)
    const importRoot = 'tar -C "$1" -c . | docker --host "$2" import - "$3"'
    await runCommand('sh', ['-c', importRoot, 'sh', rootFolder, socket, image], { env })
    return {
      version,
      run: (command) => runOnce(socket, env, command),
      hold: () => hold(docker),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

type CallDocker = (...args: string[]) => Promise<{ stdout: string }>

async function hold(docker: CallDocker): Promise<HeldContainer> {
  const id = (await docker('run', '--detach', image, 'sleep', 'infinity')).stdout.trim()
  return {
    exec: async (words) => (await docker('exec', '--user', 'user', id, ...words)).stdout,
    close: async () => void (await docker('rm', '--force', id)),
  }
}

async function runOnce(socket: string, env: Record<string, string>, command: readonly string[]) {
  const start = performance.now()
  const child = spawn('docker', ['--host', socket, 'run', '--rm', image, ...command], { env })
  let firstOutputMs = Number.NaN
  const said: Buffer[] = []
  child.stdout.once('data', () => {
    firstOutputMs = performance.now() - start
  })
  child.stdout.resume()
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk))
  child.stdin.end()
  const [exitCode] = await once(child, 'close')
  const exitMs = performance.now() - start
  if (exitCode !== 0) throw new Error(`docker run ended with ${exitCode}: ${Buffer.concat(said)}`)
  return { firstOutputMs, exitMs }
}

async function untilServing(daemon: ChildProcess, folder: string, docker: CallDocker): Promise<string> {
  for (let attempt = 0; ; attempt++) {
    try {
      return (await docker('version', '--format', '{{.Server.Version}}')).stdout.trim()
    } catch (error) {
      if (daemon.exitCode !== null || attempt > 150) {
        const said = await readFile(join(folder, 'dockerd.log'), 'utf8').catch(() => '')
        throw new Error(`dockerd does not serve: ${said.slice(-1000)}`, { cause: error })
      }
      await delay(200)
    }
  }
}

async function stopDocker(daemon: ChildProcess, folder: string, cgroup: string): Promise<void> {
  const gone = () => daemon.exitCode !== null || daemon.signalCode !== null
  if (!gone()) {
    const exited = once(daemon, 'exit')
    daemon.kill('SIGTERM')
    await withDeadline(20_000, 'dockerd does not end', () => exited).catch(() => daemon.kill('SIGKILL'))
  }
  // Only there when dockerd could not end it.
  const containerd = Number(
    await readFile(join(folder, 'run/containerd/containerd.pid'), 'utf8').catch(() => ''),
  )
  if (containerd && existsSync(`/proc/${containerd}`)) process.kill(containerd, 'SIGKILL')
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
  for (const controller of await readdir('/sys/fs/cgroup').catch(() => [])) {
    await rmdir(join('/sys/fs/cgroup', controller, cgroup)).catch(() => {})
  }
  await rmdir(join('/sys/fs/cgroup', cgroup)).catch(() => {})
}

/** The folders with Docker's programs. Unpacked once; nothing on the machine is changed or started by it. */
async function unpackDocker(): Promise<string[]> {
  const folder = join(cacheFolder, 'docker')
  if (!existsSync(folder)) {
    const partial = `${folder}.${process.pid}.partial`
    await rm(partial, { recursive: true, force: true })
    await mkdir(partial, { recursive: true })
    const { stdout } = await runCommand('apt-cache', ['pkgnames', 'docker-cli'])
    const wanted = packages.filter((name) => name !== 'docker-cli' || stdout.split('\n').includes(name))
    await runCommand('apt-get', ['download', ...wanted], { cwd: partial })
    for (const file of await readdir(partial)) {
      await runCommand('dpkg', ['--extract', join(partial, file), join(partial, 'root')])
    }
    await rename(join(partial, 'root'), folder)
    await rm(partial, { recursive: true, force: true })
  }
  return [join(folder, 'usr/bin'), join(folder, 'usr/sbin')]
}
