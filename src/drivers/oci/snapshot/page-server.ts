/**
 * The process that serves the memory of a snapshot to gVisor while the memory still arrives
 * (`native/page-server.c`). It outlives this process, and ends by itself when nobody needs it any more.
 */
import { once } from 'node:events'
import { type FileHandle, mkdir, open, stat } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { isMissing } from '../../../lib/if-present.ts'
import { runCommand } from '../../../lib/run-command.ts'
import { memoryName, pagesFile } from './snapshot-folder.ts'

/** The server knows the memory in blocks of this size. */
export const blockBytes = 2 * 1024 * 1024
/** The file into which the memory is written, and the socket of its server. */
const dataName = 'pages.data'
const socketName = 'pages.sock'
const numberBytes = 4
/** Sent when the last reader has closed the file. */
const closedMark = 0xffffffff

/** Starts the server of a snapshot whose folder has no `memory/pages.img` yet. Rejects if that cannot work here. */
export async function startPageServer(program: string, folder: string, bytes: number): Promise<void> {
  await runCommand(program, [folder, String(bytes)], { timeoutMs: 10_000 })
}

/** Rejects with the reason if this machine cannot serve files while they arrive. Leaves files in the empty folder. */
export async function probePageServer(program: string, folder: string): Promise<void> {
  await mkdir(join(folder, memoryName))
  await startPageServer(program, folder, 1)
  // The server answers only if the kernel has accepted its file.
  const served = await stat(join(folder, pagesFile))
  const server = await PageServerConnection.open(folder, 1)
  server?.close()
  if (served.size !== 1 || !server) throw new Error('The program that serves memory does not answer.')
}

export class PageServerConnection {
  /** True for each block that is complete. */
  readonly isThere: boolean[]
  readonly #socket: Socket
  readonly #closed = Promise.withResolvers<void>()
  #received: Buffer

  /** Resolves when the memory has no reader any more, or the server has ended. */
  readonly closed: Promise<void> = this.#closed.promise

  private constructor(socket: Socket, isThere: boolean[], rest: Buffer) {
    this.#socket = socket
    this.isThere = isThere
    this.#received = rest
    socket.on('error', () => {})
    socket.once('close', () => this.#closed.resolve())
    if (socket.destroyed) this.#closed.resolve()
  }

  /** Undefined if the server has ended. */
  static async open(folder: string, blocks: number): Promise<PageServerConnection | undefined> {
    // A path through a descriptor, because the names of sockets are limited to 107 characters.
    const folderHandle = await open(folder, 'r')
    try {
      const socket = connect(`/proc/self/fd/${folderHandle.fd}/${socketName}`)
      await once(socket, 'connect')
      return await PageServerConnection.#greet(socket, blocks)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (isMissing(error) || code === 'ECONNREFUSED' || code === 'ECONNRESET') return undefined
      throw error
    } finally {
      await folderHandle.close()
    }
  }

  /** Reads which blocks the server has. */
  static async #greet(socket: Socket, blocks: number): Promise<PageServerConnection | undefined> {
    const chunks: Buffer[] = []
    let length = 0
    for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
      chunks.push(chunk)
      length += chunk.length
      if (length >= blocks) break
    }
    if (length < blocks) return undefined
    const received = Buffer.concat(chunks)
    const isThere = Array.from(received.subarray(0, blocks), (byte) => byte === 1)
    return new PageServerConnection(socket, isThere, received.subarray(blocks))
  }

  /** Calls the listener with each block that a read waits for. */
  onWanted(listener: (block: number) => void): void {
    const onChunk = (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk])
      let at = 0
      for (; at + numberBytes <= this.#received.length; at += numberBytes) {
        const number = this.#received.readUInt32LE(at)
        if (number === closedMark) this.#closed.resolve()
        else listener(number)
      }
      this.#received = this.#received.subarray(at)
    }
    this.#socket.on('data', onChunk)
    onChunk(Buffer.alloc(0))
  }

  /** Tells the server that all bytes of the block are in the file. */
  complete(block: number): void {
    this.isThere[block] = true
    const number = Buffer.alloc(numberBytes)
    number.writeUInt32LE(block)
    this.#socket.write(number)
  }

  close(): void {
    this.#socket.destroy()
  }
}

/** The file into which the memory is written. */
export const openPages = (folder: string): Promise<FileHandle> => open(join(folder, dataName), 'r+')
