/** Replaces the egress policy of a running sandbox. */
import { type EgressOptions, replaceEgress } from '../../network-policy/network-options.ts'
import type { SandboxEgress } from '../network/egress.ts'
import type { Sandbox } from '../row/sandbox.ts'
import type { SandboxTurns } from '../row/sandbox-turns.ts'

export type NetworkUpdate = EgressOptions & { allowInternetAccess: boolean | null }

export class NetworkUpdater {
  readonly #parts: { turns: SandboxTurns; egress: SandboxEgress }

  constructor(parts: { turns: SandboxTurns; egress: SandboxEgress }) {
    this.#parts = parts
  }

  /**
   * Writes the row first: if the rest fails or is cut off, the reconciler applies the row to the sandbox.
   * Undefined if the sandbox no longer runs in this run.
   */
  async replace(
    seen: Sandbox,
    { allowInternetAccess, ...update }: NetworkUpdate,
  ): Promise<Sandbox | undefined> {
    const { turns, egress } = this.#parts
    await egress.check({ allowInternetAccess, network: replaceEgress(seen.options.network, update) })
    return turns.acquire(seen.sandboxID, async ({ row, signal }) => {
      if (row?.state !== 'running' || row.runID !== seen.runID) return undefined
      const network = replaceEgress(row.options.network, update)
      const changed = await turns.setOptions(row, { ...row.options, allowInternetAccess, network })
      if (!changed) return undefined
      await egress.apply(changed)
      await egress.trust(changed, changed.handle!, signal)
      return changed
    })
  }
}
