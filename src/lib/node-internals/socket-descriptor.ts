import type { Socket } from 'node:net'

/** The file descriptor of an open connection, which Node's documented interface does not show. */
export function descriptorOf(socket: Socket): number | undefined {
  const { fd } = (socket as unknown as { _handle: { fd?: number } | null })._handle ?? {}
  return fd === undefined || fd < 0 ? undefined : fd
}
