/** A store, of sandboxes or of something else, that fails when a test says so, before or after a step took effect. */
import type { SandboxStore } from '../../src/core/sandbox/row/sandbox-store.ts'
import { AppError } from '../../src/lib/app-error.ts'

type Hook<Store> = (method: keyof Store, args: readonly unknown[]) => void | Promise<void>

export class StoreFaults<Store extends object = SandboxStore> {
  /** Called before each step; what it throws is the failure of a step that did not happen. */
  before: Hook<Store> = () => {}
  /** Called after each step took effect; what it throws hides its outcome. */
  after: Hook<Store> = () => {}

  wrap(store: Store): Store {
    return new Proxy(store, {
      get: (target, name) => {
        const method = name as keyof Store
        return async (...args: never[]) => {
          await this.before(method, args)
          const step = target[method] as (...args: never[]) => Promise<unknown>
          const outcome = await step.apply(target, args)
          await this.after(method, args)
          return outcome
        }
      },
    })
  }
}

/** The connection to the database was lost. */
export const connectionLost = () => new AppError('unavailable', 'The database cannot be reached; try again.')

/** A hook that fails moves to this state, `times` times. */
export function failTransitions(
  to: string,
  times = Number.POSITIVE_INFINITY,
  error: () => Error = connectionLost,
): Hook<SandboxStore> {
  let left = times
  return (method, args) => {
    if (method === 'transition' && args[1] === to && left-- > 0) throw error()
  }
}

/** A hook that fails calls of this method, `times` times. */
export function failCalls<Store>(method: keyof Store, times = Number.POSITIVE_INFINITY): Hook<Store> {
  let left = times
  return (called) => {
    if (called === method && left-- > 0) throw connectionLost()
  }
}
