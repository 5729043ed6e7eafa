/** Replaces the egress policy of a running sandbox. */
import { KeyedLock } from '../../lib/keyed-lock.ts'
import { type EgressOptions, replaceEgress } from '../network-policy/network-options.ts'
import type { SandboxStore } from '../stores.ts'
import type { SandboxEgress } from './egress.ts'
import type { OngoingWork } from './ongoing-work.ts'
import type { Sandbox } from './sandbox.ts'

export type NetworkUpdate = EgressOptions & { allowInternetAccess: boolean | null }

export class NetworkUpdater {
  readonly #parts: { sandboxes: SandboxStore; egress: SandboxEgress; ongoing: OngoingWork }
  /** The later of two changes must win in the row, in the kernel and at the gate alike. */
  readonly #locks = new KeyedLock()

  constructor(parts: { sandboxes: SandboxStore; egress: SandboxEgress; ongoing: OngoingWork }) {
    this.#parts = parts
  }

  /**
   * The row first: where the rest fails or is cut off, the next start of Warren brings the sandbox in line with
   * it. Undefined when the sandbox is not running in that run any more.
   */
  async replace(
    seen: Sandbox,
    { allowInternetAccess, ...update }: NetworkUpdate,
  ): Promise<Sandbox | undefined> {
    const { sandboxes, egress, ongoing } = this.#parts
    const { sandboxID } = seen
    const network = replaceEgress(seen.options.network, update)
    await egress.check({ allowInternetAccess, network })
    return this.#locks.run(sandboxID, () =>
      ongoing.run(sandboxID, async (signal) => {
        const options = { ...seen.options, allowInternetAccess, network }
        const changed = await sandboxes.setOptions(seen, options)
        if (!changed) return undefined
        await egress.limit(changed.handle!, options)
        egress.admit(changed, changed.handle!)
        await egress.trust(changed, changed.handle!, signal)
        return changed
      }),
    )
  }
}
