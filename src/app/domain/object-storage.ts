/** Joins the parts that keep bytes in the object store and take sandboxes over from there. */
import { BuildsAtHand } from '../../core/object-storage/builds-at-hand.ts'
import { BytesFetcher } from '../../core/object-storage/bytes-fetcher.ts'
import { LogCarrier } from '../../core/object-storage/log-carrier.ts'
import { SandboxMigrator } from '../../core/object-storage/migrator.ts'
import { RemoteSnapshots } from '../../core/object-storage/remote-snapshots.ts'
import { ObjectSweeper } from '../../core/object-storage/sweeper.ts'
import { Uploader } from '../../core/object-storage/uploader.ts'
import type { SandboxTurns } from '../../core/sandbox/row/sandbox-turns.ts'
import type { SnapshotStore } from '../../core/sandbox/snapshots/snapshot-store.ts'
import type { DomainPorts, DomainSettings } from './domain-ports.ts'

export function joinObjectStorage(
  ports: DomainPorts,
  { nodeID }: DomainSettings,
  snapshots: SnapshotStore,
  turns: SandboxTurns,
) {
  if (!ports.objectStorage) return undefined
  const { stores, driver, clock, log } = ports
  const { objects, packs, layers } = ports.objectStorage
  const rows = stores.remoteBytes
  const parts = {
    rows,
    layers,
    packs,
    clock,
    log,
    logs: new LogCarrier(ports.logs, log),
    expiresUnusedArrivals: () => stores.nodes.allKeepArriving(),
    snapshots: new RemoteSnapshots({ driver, snapshots, packs, clock, log }),
  }
  const fetcher = new BytesFetcher(parts)
  return {
    fetcher,
    uploader: new Uploader(parts),
    buildsAtHand: new BuildsAtHand({ rows, images: ports.images, snapshots, clock }),
    migrator: new SandboxMigrator({ rows, turns, fetcher, nodeID, log }),
    sweeper: new ObjectSweeper({ objects, rows, leases: stores.leases, clock, log }),
  }
}
