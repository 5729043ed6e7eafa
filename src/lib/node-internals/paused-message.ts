import { IncomingMessage } from 'node:http'

/**
 * Stops a message from reading its connection while `isHeld` says so. Otherwise a message that is paused reads on until its
 * buffer is full, and each byte in it may be a piece of its own.
 */
export function pauseReading(message: IncomingMessage, isPaused: () => boolean): void {
  if (Object.hasOwn(message, '_read')) return
  message._read = (size) => {
    if (!isPaused()) IncomingMessage.prototype._read.call(message, size)
  }
}
