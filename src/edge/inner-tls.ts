/**
 * TLS to a service that speaks it. The service is identified by its address, so its certificate is not
 * checked.
 */
import type { Socket } from 'node:net'
import { connect } from 'node:tls'
import { systemClock } from '../lib/clock.ts'

const handshakeTimeoutMs = 5_000

export function shakeHands(socket: Socket, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const secure = connect({ socket, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] })
    const fail = (error: Error) => {
      secure.destroy()
      socket.destroy()
      release()
      reject(error)
    }
    const abort = () => fail(signal.reason as Error)
    const cancel = systemClock.after(handshakeTimeoutMs, () => {
      fail(new Error('the service did not finish the TLS handshake in time'))
    })
    const gone = () => fail(new Error('the service closed the connection during the TLS handshake'))
    const release = () => {
      signal.removeEventListener('abort', abort)
      cancel()
      secure.off('close', gone)
    }
    signal.addEventListener('abort', abort, { once: true })
    // An error without a listener would end the process; the user of the socket adds a listener that handles
    // it.
    secure.on('error', fail)
    secure.once('close', gone)
    secure.once('secureConnect', () => {
      release()
      resolve(secure)
    })
  })
}
