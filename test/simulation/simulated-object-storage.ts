/** The object store as one life of a process uses it: guarded as the server guards it, and over parked calls. */

import { guardedObjects, guardedPacks, StoreIdentity } from '../../src/core/object-storage/store-identity.ts'
import type { RemoteLayers } from '../../src/core/ports/images.ts'
import type { ObjectStore, PackStore } from '../../src/core/ports/object-store.ts'
import type { Clock } from '../../src/lib/clock.ts'
import type { Log } from '../../src/lib/log.ts'
import type { Stores } from '../../src/store/stores.ts'
import { newSimulatedLayers } from './simulated-builds.ts'
import type { Wrap } from './simulated-node.ts'
import { type SimulatedPacks, withParkedReads } from './simulated-packs.ts'

export type SimulatedStoreParts = {
  packs: SimulatedPacks
  stores: Pick<Stores, 'nodes' | 'remoteBytes'>
  /** Memory arrives while its sandbox runs. */
  readsParts: boolean
  /** The layers on the disk of the node. */
  onDisk: Set<string>
  wrap: Wrap
  clock: Clock
  log: Log
}

export function joinSimulatedStore(parts: SimulatedStoreParts): {
  objects: ObjectStore
  packs: PackStore
  layers: RemoteLayers
} {
  const { packs, stores, readsParts, onDisk, wrap, clock, log } = parts
  const objects = wrap('objects', 'objects', packs, ['list'])
  const identity = new StoreIdentity({
    objects,
    rows: stores.remoteBytes,
    shared: stores.nodes,
    location: packs.location,
    clock,
    log,
  })
  const wrapped = wrap('objects', 'packs', packs, ['list'])
  const inParts = readsParts ? withParkedReads(wrapped, (read) => wrap('objects', 'pack', read)) : wrapped
  const guarded = guardedPacks(inParts, identity)
  return {
    objects: guardedObjects(objects, identity),
    packs: guarded,
    layers: newSimulatedLayers(guarded, onDisk),
  }
}
