/**
 * Joins the parts that decide for the nodes of a cluster, over the ports by which they reach each other. Like
 * domain.ts, it opens and starts nothing: the simulation joins its nodes in the same way.
 */
import { Drainer } from '../../core/cluster/drainer.ts'
import type { AskWhyUnfit, HandOver, OfferedSandbox } from '../../core/cluster/hand-over.ts'
import { takeOffered } from '../../core/cluster/hand-over.ts'
import type { Membership } from '../../core/cluster/membership.ts'
import { Owners } from '../../core/cluster/owners.ts'
import { RequestRouter } from '../../core/cluster/request-router.ts'
import { canExportSnapshots, type MemoryNeeds } from '../../core/ports/driver.ts'
import { AppError } from '../../lib/app-error.ts'
import { randomBelow } from '../../lib/ids.ts'
import type { Domain } from '../domain/domain.ts'
import type { DomainPorts } from '../domain/domain-ports.ts'

type ClusterDomainParts = {
  ports: Pick<DomainPorts, 'stores' | 'driver' | 'routes' | 'clock' | 'log'>
  domain: Pick<Domain, 'objectStorage' | 'upkeep' | 'snapshots'>
  membership: Membership
  /** Offers a sandbox to a peer. */
  handOver: HandOver
  /** Asks a peer whether it can use the memory of a sandbox. */
  askWhyUnfit: AskWhyUnfit
}

export type ClusterDomain = {
  /** Undefined without an object store, because nothing can move then. */
  drainer: Drainer | undefined
  router: RequestRouter
  /** Answers a draining peer's offer. */
  takeOffered: (offered: OfferedSandbox) => Promise<void>
  /** Answers a draining peer's question. */
  whyUnfit: (asked: { needs: MemoryNeeds }) => Promise<string | undefined>
}

export function joinClusterDomain(parts: ClusterDomainParts): ClusterDomain {
  const { ports, domain, membership, handOver, askWhyUnfit } = parts
  const { stores, driver, clock, log } = ports
  const { objectStorage, upkeep, snapshots } = domain
  const drainer =
    objectStorage &&
    new Drainer({
      sandboxes: stores.sandboxes,
      teams: stores.teams,
      membership,
      rows: stores.remoteBytes,
      uploader: objectStorage.uploader,
      upkeep,
      clock,
      log,
      migrator: objectStorage.migrator,
      handOver,
      askWhyUnfit,
      readNeeds: async ({ handle }) =>
        handle && canExportSnapshots(driver) ? driver.memoryNeeds(handle) : null,
      canMigrateMemory: snapshots.canTakeMemory && driver.capabilities.exportSnapshots,
      drawBelow: randomBelow,
    })
  const router = new RequestRouter({
    membership,
    owners: new Owners(stores.owners, membership.nodeID),
    takeOver: async (sandboxID, options) =>
      (await objectStorage?.migrator.claim(sandboxID, options)) ?? false,
    settled: async (sandboxID) => drainer?.settled(sandboxID),
  })
  return {
    drainer,
    router,
    whyUnfit: async ({ needs }) =>
      canExportSnapshots(driver)
        ? driver.whyUnfit(needs)
        : 'Its driver restores no memory of other machines.',
    async takeOffered(offered) {
      if (!objectStorage) throw new AppError('unavailable', 'This node has no object store.')
      await takeOffered(
        {
          sandboxes: stores.sandboxes,
          teams: stores.teams,
          rows: stores.remoteBytes,
          migrator: objectStorage.migrator,
          upkeep,
          clock,
          log,
        },
        offered,
      )
    },
  }
}

/**
 * Called when this node was forgotten while it lived: removes the routes of runs that have ended or went back to their
 * stored snapshots, so that nobody reaches them; the reconciler ends the sandboxes.
 */
export async function closeForgottenRoutes({
  stores,
  routes,
}: Pick<DomainPorts, 'stores' | 'routes'>): Promise<void> {
  const live = new Set((await stores.sandboxes.listUnended()).map(({ runID }) => runID))
  for (const { sandboxID, runID } of [...routes.values()])
    if (!live.has(runID)) routes.remove(sandboxID, runID)
}
