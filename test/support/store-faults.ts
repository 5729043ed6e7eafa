/** A store of sandboxes that fails when a test says so, before or after a step took effect. */
import type { SandboxStore } from '../../src/core/stores.ts'
import { AppError } from '../../src/lib/app-error.ts'

type Method = keyof SandboxStore
type Hook = (method: Method, args: readonly unknown[]) => void | Promise<void>

export class StoreFaults {
  /** Called before each step; what it throws is the failure of a step that did not happen. */
  before: Hook = () => {}
  /** Called after each step took effect; what it throws hides its outcome. */
  after: Hook = () => {}

  wrap(store: SandboxStore): SandboxStore {
    return new Proxy(store, {
      get: (target, name) => {
        const method = name as Method
        return async (...args: never[]) => {
          await this.before(method, args)
          const outcome = await (target[method] as (...args: never[]) => Promise<unknown>).apply(target, args)
          await this.after(method, args)
          return outcome
        }
      },
    })
  }
}

/** The connection to the database was lost. */
export const connectionLost = () => new AppError('unavailable', 'The database cannot be reached; try again.')

/** A hook that fails moves to this state, so many times. */
export function failMoves(
  to: string,
  times = Number.POSITIVE_INFINITY,
  error: () => Error = connectionLost,
): Hook {
  let left = times
  return (method, args) => {
    if (method === 'move' && args[1] === to && left-- > 0) throw error()
  }
}
