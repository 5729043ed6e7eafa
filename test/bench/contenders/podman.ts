/**
 * Podman as a peer, in network and mount namespaces of its own, where its packages lie over the machine's folders as if
 * they were installed. Its bridge, firewall rules and mounts end with the process that holds the namespaces.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { unpacked } from '../../support/roots.ts'
import { cacheFolder } from '../../support/warren.ts'
import {
  type ContainerEngine,
  callEngine,
  type EngineCall,
  endProcess,
  openEngine,
} from './container-engine.ts'

const packages = ['conmon', 'netavark', 'aardvark-dns', 'libsubid4', 'libgpgme11', 'libassuan0']
const settings = ['golang-github-containers-common', 'golang-github-containers-image']

const script = `set -e
for folder in usr etc; do mount -t overlay -o "lowerdir=$1/$folder:/$folder" overlay "/$folder"; done
mount -t tmpfs tmpfs /run
ip link set lo up
echo ready
exec sleep infinity`

export async function startPodman(rootFolder: string): Promise<ContainerEngine> {
  const programs = await unpacked('podman', [...packages, ...settings])
  const words = ['--net', '--mount', 'bash', '-c', script, 'bash', programs]
  const holder = spawn('unshare', words, { stdio: ['ignore', 'pipe', 'pipe'] })
  const data = join(cacheFolder, `bench-podman-${process.pid}`)
  const call = callOf(holder.pid!, data)
  const close = async () => {
    await callEngine(call, 'rm', '--all', '--force').catch(() => {})
    await endProcess(holder)
    await rm(data, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
  }
  const parts = { name: 'podman', call, versionFormat: '{{.Client.Version}}' }
  return openEngine({ ...parts, untilReady: () => untilReady(holder), close }, rootFolder)
}

function callOf(holder: number, data: string): EngineCall {
  const enter = ['--target', String(holder), '--net', '--mount', 'podman']
  const folders = ['--root', data, '--runroot', '/run/podman', '--network-config-dir', '/run/podman-networks']
  // Without systemd; and a limit above the machine's own would be refused.
  const limits = ['--ulimit', 'nofile=20000:20000', '--ulimit', 'nproc=4096:4096']
  return {
    program: 'nsenter',
    words: [...enter, ...folders, '--cgroup-manager', 'cgroupfs', '--runtime', 'runc'],
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
    runOptions: limits,
  }
}

async function untilReady(holder: ChildProcess): Promise<void> {
  const said: Buffer[] = []
  holder.stderr!.on('data', (chunk: Buffer) => said.push(chunk))
  const ended = once(holder, 'exit').then(() => Promise.reject(new Error(Buffer.concat(said).toString())))
  await Promise.race([once(holder.stdout!, 'data'), ended])
}
