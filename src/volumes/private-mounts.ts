/**
 * Mounts that only this process sees, in the mount namespace of a child process. Slots of sandboxes, which
 * copy the host's mounts, do not keep these, and they vanish with this process however it ends.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { AppError } from '../lib/app-error.ts'
import { runCommand } from '../lib/run-command.ts'

type Keeper = ChildProcessByStdio<Writable, Readable, null>

const mountInside = 'mkdir -p "$3" && mount -t ext4 -o "$1" "$2" "$3"'
const unmountInside = 'umount --lazy "$1" && rmdir "$1"'

export class PrivateMounts {
  readonly #folder: string
  #keeper: Promise<Keeper> | undefined

  /** `folder` must exist; in the namespace it holds the mount points. */
  constructor(folder: string) {
    this.#folder = folder
  }

  /** Mounts the device and returns a path to it, which is valid as long as the holder lives. */
  async mount(name: string, device: string, options: string): Promise<string> {
    const { pid } = await this.#startOnce()
    await this.#run(pid!, mountInside, options, device, this.#pathOf(name))
    return `/proc/${pid}/root${this.#pathOf(name)}`
  }

  async unmount(name: string): Promise<void> {
    const keeper = await this.#keeper
    if (keeper) await this.#run(keeper.pid!, unmountInside, this.#pathOf(name))
  }

  async close(): Promise<void> {
    const keeper = await this.#keeper?.catch(() => undefined)
    if (!keeper || keeper.exitCode !== null || keeper.signalCode !== null) return
    keeper.ref()
    const exited = once(keeper, 'exit')
    keeper.kill('SIGKILL')
    await exited
  }

  #pathOf = (name: string): string => `${this.#folder}/${name}`

  async #run(pid: number, script: string, ...args: string[]): Promise<void> {
    await runCommand('nsenter', [`--mount=/proc/${pid}/ns/mnt`, 'sh', '-c', script, 'sh', ...args])
  }

  #startOnce(): Promise<Keeper> {
    this.#keeper ??= this.#startKeeper().catch((error) => {
      this.#keeper = undefined
      throw error
    })
    return this.#keeper
  }

  async #startKeeper(): Promise<Keeper> {
    const script = 'mount -t tmpfs -o mode=0700 tmpfs "$1" && echo && exec cat'
    const args = ['--mount', '--propagation', 'private', 'sh', '-c', script, 'sh', this.#folder]
    const keeper = spawn('unshare', args, { stdio: ['pipe', 'pipe', 'ignore'] })
    const ended = once(keeper, 'exit').then(() => {
      this.#keeper = undefined
      throw new AppError('unavailable', 'Volumes cannot be mounted: the mount namespace for them ended.')
    })
    ended.catch(() => {})
    await Promise.race([once(keeper.stdout, 'data'), ended])
    keeper.unref()
    return keeper
  }
}
