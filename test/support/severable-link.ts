/** A connection between two machines that a test can cut: a port that leads to another one, or to a socket. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from 'node:net'

export type SeverableLink = {
  port: number
  /** Whatever goes through it ends, and nothing gets through until it is mended. */
  cut(): void
  mend(): void
  close(): void
}

export async function openLink(to: NetConnectOpts, host: string): Promise<SeverableLink> {
  const open = new Set<Socket>()
  let isCut = false
  const reset = () => {
    for (const socket of open) socket.destroy()
  }
  const server = createServer((near) => {
    if (isCut) {
      near.destroy()
      return
    }
    const far = connect(to)
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one)
      one
        .on('error', () => {})
        .once('close', () => {
          open.delete(one)
          other.destroy()
        })
      one.pipe(other)
    }
  })
  server.listen(0, host)
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      isCut = true
      reset()
    },
    mend() {
      isCut = false
    },
    close() {
      server.close()
      reset()
    },
  }
}
