/** Every failure a caller may see. The HTTP and Connect edges map each code in one table the compiler checks. */
export type ErrorCode =
  | 'invalid_argument'
  | 'unauthenticated'
  | 'permission_denied'
  | 'not_found'
  | 'already_exists'
  | 'conflict'
  | 'payload_too_large'
  | 'misdirected'
  | 'unprocessable'
  | 'limit_reached'
  | 'no_space'
  | 'unavailable'
  | 'deadline_exceeded'
  | 'internal'

type AppErrorOptions = {
  /** For the log only; never sent. */
  cause?: unknown
  /** The wire's `error_code`, where clients read one. */
  slug?: string
  /** Whether the same request can succeed later, and after how many whole seconds. */
  retry?: { should: boolean; afterSeconds?: number }
}

/** The message is safe to show and says what to do; the cause is for the log. */
export class AppError extends Error {
  readonly code: ErrorCode
  readonly slug: string | undefined
  readonly retry: { should: boolean; afterSeconds?: number } | undefined

  constructor(code: ErrorCode, message: string, options: AppErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'AppError'
    this.code = code
    this.slug = options.slug
    this.retry = options.retry
  }
}

export function isAppError(error: unknown, code?: ErrorCode): error is AppError {
  return error instanceof AppError && (code === undefined || error.code === code)
}

/** The part of a thrown value that a client may see. Messages of tools and of the system are for the log only. */
export function shownText(error: unknown): string {
  return isAppError(error) ? error.message : 'the log of the server has the cause.'
}

/** The text of anything thrown, for logs and for messages that quote a tool's own words. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
