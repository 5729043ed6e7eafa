/**
 * Real pipes for the standard streams of processes. What Node makes for `stdio: 'pipe'` are sockets, and a
 * program that opens /dev/stdout or /dev/stderr again fails on a socket. Node cannot make a pipe, so named
 * ones are made in batches by `mkfifo`, each used once and unlinked as soon as both ends are open.
 */
import { spawn } from 'node:child_process'
import { chownSync, closeSync, constants, mkdtempSync, openSync, unlinkSync } from 'node:fs'
import { Socket } from 'node:net'
import { join } from 'node:path'
import type { Account } from '../accounts.ts'

const batchSize = 48
const refillBelow = 12

/** Our end, and the descriptor the child gets; close that one once the child has started. */
export type Pipe = { ours: Socket; theirs: number }

export class Fifos {
  #mkfifo: readonly string[]
  #parents: readonly string[]
  #folder: string | undefined
  #ready: string[] = []
  #counter = 0
  #filling: Promise<void> | undefined
  #unusable = false

  /** The folder for the pipes is made in the first of `parents` that can be written; memory is best. */
  constructor(mkfifo: readonly string[], parents: readonly string[] = ['/dev/shm', '/run', '/tmp']) {
    this.#mkfifo = mkfifo
    this.#parents = parents
  }

  /** Takes `count` unused pipes; undefined where no named pipe can be made. */
  async take(count: number): Promise<string[] | undefined> {
    while (this.#ready.length < count && !this.#unusable) await this.fill()
    if (this.#ready.length < count) return undefined
    const taken = this.#ready.splice(0, count)
    if (this.#ready.length < refillBelow) void this.fill()
    return taken
  }

  fill(): Promise<void> {
    this.#filling ??= this.#makeBatch().finally(() => {
      this.#filling = undefined
    })
    return this.#filling
  }

  async #makeBatch(): Promise<void> {
    try {
      this.#folder ??= makeFolder(this.#parents)
      const folder = this.#folder
      const paths = Array.from({ length: batchSize }, () => join(folder, String(this.#counter++)))
      await runQuietly([...this.#mkfifo, '-m', '600', ...paths])
      this.#ready.push(...paths)
    } catch {
      this.#unusable = true
    }
  }
}

function makeFolder(parents: readonly string[]): string {
  for (const parent of parents) {
    try {
      return mkdtempSync(join(parent, '.warren-'))
    } catch {}
  }
  throw new Error('no folder for pipes can be written')
}

/** Opens a pipe the child writes and we read. */
export function openOutput(path: string, account: Account): Pipe {
  return open(path, account, false, () => {
    const ours = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    return { ours, theirs: openSync(path, constants.O_WRONLY) }
  })
}

/** Opens a pipe we write and the child reads. */
export function openInput(path: string, account: Account): Pipe {
  return open(path, account, true, () => {
    // Opened for both first, so that neither of the one-way opens has to wait for its other side.
    const both = openSync(path, constants.O_RDWR)
    const theirs = openSync(path, constants.O_RDONLY)
    const ours = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK)
    closeSync(both)
    return { ours, theirs }
  })
}

function open(
  path: string,
  account: Account,
  writing: boolean,
  openEnds: () => { ours: number; theirs: number },
): Pipe {
  // The child may open its own stream again through /proc/self/fd: it must own it.
  if (account.uid !== 0) chownSync(path, account.uid, account.gid)
  const { ours, theirs } = openEnds()
  unlinkSync(path)
  return { ours: new Socket({ fd: ours, readable: !writing, writable: writing }), theirs }
}

function runQuietly(command: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command[0]!, command.slice(1), { stdio: 'ignore', env: {} })
    child.on('error', reject)
    child.on('exit', (code) =>
      code === 0 ? resolve() : reject(new Error(`${command[0]} ended with ${code}`)),
    )
  })
}
