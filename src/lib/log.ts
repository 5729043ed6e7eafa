/** The smallest logger the rooms need; pino has this shape. Values must hold no key, token or environment. */
export interface Log {
  debug(values: object, message: string): void
  info(values: object, message: string): void
  warn(values: object, message: string): void
  error(values: object, message: string): void
}

const nothing = () => {}
export const silentLog: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
