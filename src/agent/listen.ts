/** Binds the agent's port so that no process inside can take its place while it lives. */
import type { Server } from 'node:http'
import { release } from 'node:os'
import { AppError } from '../lib/app-error.ts'
import { openCLibrary } from '../lib/c-library.ts'
import { listenDirectly } from '../lib/node-internals/direct-listen.ts'

const ipv6 = 10
/** Close-on-exec and non-blocking. */
const streamSocket = 1 | 0o2000000 | 0o4000
const addressBytes = 28

export function isGvisor(): boolean {
  return release().endsWith('-gvisor')
}

/**
 * Listens on all addresses, including IPv6 if available. Node sets SO_REUSEADDR on every socket. With it
 * gVisor lets any user bind the same port on one of the addresses, and gives that user the agent's traffic:
 * there the socket is made without it. Linux does not allow that, and needs the option in a network in which
 * an earlier sandbox has just ended.
 */
export function listenAlone(server: Server, port: number, addonPath: string): void {
  listenDirectly(server, port, isGvisor() ? tryBind(port, addonPath) : undefined)
}

/** Without the addon or IPv6, the agent still listens. */
function tryBind(port: number, addonPath: string): number | undefined {
  try {
    return bindAlone(port, addonPath)
  } catch {
    return undefined
  }
}

export function bindAlone(port: number, addonPath: string): number {
  const libc = openCLibrary(addonPath)
  const address = Buffer.alloc(addressBytes)
  address.writeUInt16LE(ipv6, 0)
  address.writeUInt16BE(port, 2)
  const fd = libc.func('int socket(int domain, int type, int protocol)')(ipv6, streamSocket, 0)
  const bind = libc.func('int bind(int socket, void *address, unsigned int length)')
  if (fd >= 0 && bind(fd, address, addressBytes) === 0) return fd
  throw new AppError('unavailable', `port ${port} could not be bound (system error ${libc.errno()})`)
}
