/** Requests to the kernel over netlink, one at a time, each acknowledged by the kernel. */
import { closeSync } from 'node:fs'
import { getSystemErrorName } from 'node:util'
import { openNativeLibc } from '../../../lib/native.ts'

export type Netlink = {
  /** Throws if the kernel rejects it. `flags` are added to those of an acknowledged request. */
  ask(what: string, type: number, body: Buffer, flags?: number): void
  close(): void
}

const socketKind = { family: 16, type: 3 | 0o2000000 } as const
/** NLM_F_REQUEST and NLM_F_ACK. */
const acknowledged = 0x5
const headBytes = 16
const errorAt = 16
/** MSG_DONTWAIT: the answer is there when the request has been sent. */
const doNotWait = 0x40
const nestedFlag = 0x8000

/**
 * In the network namespace of the calling thread. `without` names what is impossible if netlink is not
 * available.
 */
export function openNetlink(protocol: number, without: string): Netlink {
  const { socket, send, receive, check } = bind(without)
  const fd = check(socket(socketKind.family, socketKind.type, protocol), 'socket')
  return {
    ask(what, type, body, flags = 0) {
      const head = Buffer.alloc(headBytes)
      head.writeUInt32LE(headBytes + body.length, 0)
      head.writeUInt16LE(type, 4)
      head.writeUInt16LE(acknowledged | flags, 6)
      check(Number(send(fd, Buffer.concat([head, body]), headBytes + body.length, 0)), 'send')
      const answer = Buffer.alloc(4096)
      check(Number(receive(fd, answer, answer.length, doNotWait)), 'recv')
      const errno = answer.readInt32LE(errorAt)
      if (errno === 0) return
      const code = getSystemErrorName(errno)
      throw Object.assign(new Error(`${code}: ${what}`), { code })
    },
    close: () => closeSync(fd),
  }
}

type Calls = ReturnType<typeof bindNew>
let bound: Calls | undefined

function bind(without: string): Calls {
  bound ??= bindNew(without)
  return bound
}

function bindNew(without: string) {
  const libc = openNativeLibc(without)
  return {
    socket: libc.func('int socket(int family, int type, int protocol)'),
    send: libc.func('long send(int socket, const void *data, size_t size, int flags)'),
    receive: libc.func('long recv(int socket, void *data, size_t size, int flags)'),
    check(result: number, call: string): number {
      if (result < 0) throw libc.failure(call)
      return result
    },
  }
}

export function attribute(type: number, value: Buffer): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt16LE(head.length + value.length, 0)
  head.writeUInt16LE(type, 2)
  return Buffer.concat([head, value, Buffer.alloc(-value.length & 3)])
}

/** Some parts of the kernel require the flag on nested attributes, and no part rejects it. */
export const nested = (type: number, ...values: Buffer[]): Buffer =>
  attribute(type | nestedFlag, Buffer.concat(values))

export const textAttribute = (type: number, text: string): Buffer => attribute(type, Buffer.from(`${text}\0`))

export function numberAttribute(type: number, value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return attribute(type, bytes)
}
