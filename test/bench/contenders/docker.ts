/**
 * Docker as a peer: a daemon of our own, in network and mount namespaces of its own, so that its bridge,
 * firewall rules and mounts stay off the machine and end with it. Its packages are unpacked, not installed.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, openSync, rmSync } from 'node:fs'
import { readdir, readFile, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { delay } from '../../../src/lib/clock.ts'
import { runCommand } from '../../../src/lib/run-command.ts'
import { unpacked } from '../../support/roots.ts'
import { cacheFolder } from '../../support/warren.ts'
import {
  benchImage,
  type ContainerEngine,
  callEngine,
  type EngineCall,
  endProcess,
  hasEnded,
  openEngine,
} from './container-engine.ts'

export async function startDocker(rootFolder: string): Promise<ContainerEngine> {
  const programs = await programFolders()
  const folder = join(cacheFolder, `bench-docker-${process.pid}`)
  const socket = `unix://${join(folder, 'docker.sock')}`
  const cgroup = `/warren-bench-${process.pid}`
  const env = { PATH: `${programs.join(':')}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin` }
  mkdirSync(folder, { recursive: true })
  const log = openSync(join(folder, 'dockerd.log'), 'a')
  const folders = ['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'run')]
  const names = ['--pidfile', join(folder, 'dockerd.pid'), '--cgroup-parent', cgroup, '--host', socket]
  // A containerd of the machine's own, if there is one, must not meet these containers.
  const apart = ['--containerd-namespace', benchImage]
  const containerd = [...apart, '--containerd-plugins-namespace', `plugins.${benchImage}`]
  const daemon = spawn('unshare', ['--net', '--mount', 'dockerd', ...folders, ...names, ...containerd], {
    env,
    stdio: ['ignore', log, log],
    detached: true,
  })
  const call: EngineCall = { program: 'docker', words: ['--host', socket], env, runOptions: [] }
  return openEngine(
    {
      name: 'docker',
      call,
      versionFormat: '{{.Server.Version}}',
      untilReady: () => untilServing(daemon, folder, call),
      close: () => stopDocker(daemon, folder, cgroup),
    },
    rootFolder,
  )
}

async function untilServing(daemon: ChildProcess, folder: string, call: EngineCall): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    try {
      await callEngine(call, 'version')
      return
    } catch (error) {
      if (hasEnded(daemon) || attempt > 150) {
        const said = await readFile(join(folder, 'dockerd.log'), 'utf8').catch(() => '')
        throw new Error(`dockerd does not serve: ${said.slice(-1000)}`, { cause: error })
      }
      await delay(200)
    }
  }
}

async function stopDocker(daemon: ChildProcess, folder: string, cgroup: string): Promise<void> {
  await endProcess(daemon)
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

/** The folders with Docker's programs. Nothing on the machine is changed or started by it. */
async function programFolders(): Promise<string[]> {
  // Its client is a package of its own in newer releases.
  const { stdout } = await runCommand('apt-cache', ['pkgnames', 'docker-cli'])
  const client = stdout.split('\n').includes('docker-cli') ? ['docker-cli'] : []
  const folder = await unpacked('docker.io', ['containerd', ...client])
  return [join(folder, 'usr/bin'), join(folder, 'usr/sbin')]
}
