/**
 * The kernel's table of connections, which outlives the network of a sandbox: what still comes in on a connection of
 * the last sandbox at an address would reach the next one there.
 */
import { closeSync } from 'node:fs'
import { addressToNumber } from '../../lib/ipv4.ts'
import { openNativeLibc } from '../../lib/native.ts'

export type FlowTable = {
  /** Ends all connections that were opened from this address. Takes about a millisecond. */
  forget(address: string): void
}

const netlinkSocket = { family: 16, type: 3 | 0o2000000, protocol: 12 }
/** IPCTNL_MSG_CT_DELETE of NFNL_SUBSYS_CTNETLINK, and the flags of a request that is acknowledged. */
const deleteFlows = 0x102
const acknowledged = 0x5
const internetFamily = 2
const nested = 0x8000
/** CTA_TUPLE_ORIG, CTA_TUPLE_IP and CTA_IP_V4_SRC; CTA_FILTER, CTA_FILTER_ORIG_FLAGS and the flag of a source address. */
const attributes = { tuple: 1, addresses: 1, source: 1, filter: 25, filterFlags: 1, bySource: 1 } as const
const headBytes = 16
const errorAt = 16
/** MSG_DONTWAIT: the answer is there when the request has been sent. */
const doNotWait = 0x40

export function openFlowTable(): FlowTable {
  const libc = openNativeLibc('Connections of ended sandboxes cannot be ended')
  const socket = libc.func('int socket(int family, int type, int protocol)')
  const send = libc.func('long send(int socket, const void *data, size_t size, int flags)')
  const receive = libc.func('long recv(int socket, void *data, size_t size, int flags)')
  const check = (result: number, call: string): number => {
    if (result < 0) throw libc.failure(call)
    return result
  }
  return {
    forget(address) {
      const { family, type, protocol } = netlinkSocket
      const fd = check(socket(family, type, protocol), 'socket')
      try {
        const request = forgetRequest(address)
        check(Number(send(fd, request, request.length, 0)), 'send')
        const answer = Buffer.alloc(4096)
        check(Number(receive(fd, answer, answer.length, doNotWait)), 'recv')
        const errno = -answer.readInt32LE(errorAt)
        if (errno !== 0) throw new Error(`The kernel ends no connections by their address: errno ${errno}`)
      } finally {
        closeSync(fd)
      }
    },
  }
}

function forgetRequest(address: string): Buffer {
  const source = Buffer.alloc(4)
  source.writeUInt32BE(addressToNumber(address)!)
  const flags = Buffer.alloc(4)
  flags.writeUInt32LE(attributes.bySource)
  const { tuple, addresses, filter, filterFlags } = attributes
  const body = Buffer.concat([
    Buffer.from([internetFamily, 0, 0, 0]),
    attribute(tuple | nested, attribute(addresses | nested, attribute(attributes.source, source))),
    attribute(filter | nested, attribute(filterFlags, flags)),
  ])
  const head = Buffer.alloc(headBytes)
  head.writeUInt32LE(headBytes + body.length, 0)
  head.writeUInt16LE(deleteFlows, 4)
  head.writeUInt16LE(acknowledged, 6)
  return Buffer.concat([head, body])
}

function attribute(type: number, value: Buffer): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt16LE(head.length + value.length, 0)
  head.writeUInt16LE(type, 2)
  return Buffer.concat([head, value, Buffer.alloc(-value.length & 3)])
}
