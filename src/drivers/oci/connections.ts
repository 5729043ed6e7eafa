/** Shares of connections by owner, and how many connections each sandbox has open. */
import type { ConnectionUse, OwnersOf } from '../../core/ports/connection-shares.ts'
import { countFlows } from '../host/network/flow-use.ts'
import type { OciContext } from './context/context.ts'

/** Those of machines that cannot count by owner, which is logged once. */
const saidSo = new WeakSet<object>()

export async function shareConnections(
  { exits, firewall, layout }: OciContext,
  ownersOf: OwnersOf,
  log: (message: string) => void,
): Promise<void> {
  const owners = await ownersOf(exits.records.map(({ sandboxID }) => sandboxID))
  const byLink = () => {
    const ownerOf = new Map<string, string>()
    for (const { sandboxID, slot } of exits.records) {
      const owner = owners.get(sandboxID)
      if (owner !== undefined) ownerOf.set(layout.link(slot), owner)
    }
    return ownerOf
  }
  if ((await firewall.shareFlows(byLink)) || saidSo.has(firewall)) return
  saidSo.add(firewall)
  log(
    'The kernel or nft of this machine cannot count connections by team: only each sandbox has a share of them',
  )
}

export async function measureConnections({
  exits,
  firewall,
}: OciContext): Promise<ConnectionUse | undefined> {
  const { records } = exits
  const counts = await countFlows(new Set(records.map(({ address }) => address)))
  const shares = await firewall.readShares()
  if (!counts) return undefined
  return {
    perSandbox: shares.perSandbox,
    perOwner: shares.perOwner,
    sandboxes: records.map(({ sandboxID, address }) => ({ sandboxID, count: counts.get(address) ?? 0 })),
  }
}
