/** Reads the original destination of a connection that the firewall redirected to the gate. */
import type { Socket } from 'node:net'
import type { OriginalDestination } from '../../egress/decide.ts'
import { numberToAddress } from '../../lib/ipv4.ts'
import { openNativeLibc } from '../../lib/native.ts'
import { descriptorOf } from '../../lib/node-internals/socket-descriptor.ts'

const levelIP = 0
const originalDestination = 80
/** Family, port and address in the kernel's layout. */
const addressBytes = 16

export function createOriginalDestination(): (socket: Socket) => OriginalDestination | null {
  const libc = openNativeLibc('Names cannot be read from connections')
  const getsockopt = libc.func(
    'int getsockopt(int socket, int level, int option, uint8_t *value, uint8_t *size)',
  )
  return (socket) => {
    const fd = descriptorOf(socket)
    if (fd === undefined) return null
    const found = Buffer.alloc(addressBytes)
    const size = Buffer.from(Uint32Array.of(addressBytes).buffer)
    if (getsockopt(fd, levelIP, originalDestination, found, size) !== 0) return null
    return { address: numberToAddress(found.readUInt32BE(4)), port: found.readUInt16BE(2) }
  }
}
