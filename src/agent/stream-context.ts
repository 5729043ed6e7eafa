/** What every stream asks of its call: when to show that it lives, and why it ended. */
import { Code, ConnectError, type HandlerContext } from '@connectrpc/connect'
import { AppError } from '../lib/app-error.ts'

const defaultKeepaliveSeconds = 90

export function keepaliveMs(context: HandlerContext): number {
  const asked = Number(context.requestHeader.get('keepalive-ping-interval'))
  return (Number.isInteger(asked) && asked > 0 && asked < 86_400 ? asked : defaultKeepaliveSeconds) * 1000
}

export function isDeadline(context: HandlerContext): boolean {
  return context.signal.reason instanceof ConnectError && context.signal.reason.code === Code.DeadlineExceeded
}

export function deadlineExceeded(): AppError {
  return new AppError('deadline_exceeded', 'the time allowed for this call is over')
}
