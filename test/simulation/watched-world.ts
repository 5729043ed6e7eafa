/** A machine whose snapshots and addresses are watched: no snapshot goes that somebody needs, and no route leads astray. */
import type { RouteTable } from '../../src/core/sandbox/network/routes.ts'
import {
  type FakeSandbox,
  type FakeSnapshot,
  type FakeWorld,
  newFakeWorld,
} from '../../src/drivers/fake/fake-world.ts'
import { type Note, shortID } from './parked-calls.ts'
import type { RowWatch, WatchedSandbox } from './row-watch.ts'
import { rootFolder } from './simulated-node.ts'
import { Violation } from './violation.ts'

export type WatchedWorldParts = {
  nodeName: string
  watch: RowWatch
  isOwn: (row: WatchedSandbox) => boolean
  /** The routes of the process that is there. */
  routes: () => RouteTable | undefined
  /** The sandbox that the gate knows by this address. */
  gateClientOf: (address: string) => string | undefined
  report: (violation: Violation) => void
  note: Note
}

export function newWatchedWorld({
  nodeName,
  watch,
  isOwn,
  routes,
  gateClientOf,
  report,
  note,
}: WatchedWorldParts): FakeWorld {
  const world = newFakeWorld()
  world.prepared.add(rootFolder)

  class WatchedSnapshots extends Map<string, FakeSnapshot> {
    override delete(name: string): boolean {
      if (!this.has(name)) return false
      note(() => `the snapshot ${name} is deleted`)
      const isRunning = (sandboxID: string) => world.sandboxes.get(sandboxID)?.running === true
      // A thaw removes the backup snapshot for a machine that goes down: the sandbox itself exists and continues.
      const isThawed = (sandboxID: string) =>
        isRunning(sandboxID) && world.sandboxes.get(sandboxID)?.frozenSnapshot === name
      const needs = watch.whoNeeds(name, nodeName, { isRunning, isThawed, isOwn })
      if (needs)
        report(new Violation('snapshot needed', `${shortID(name)} was deleted while ${needs} needs it`))
      return super.delete(name)
    }
  }

  class WatchedSandboxes extends Map<string, FakeSandbox> {
    override set(sandboxID: string, sandbox: FakeSandbox): this {
      for (const route of routes()?.values() ?? []) {
        const isAstray =
          route.sandboxID !== sandboxID && route.endpoint(0).host === sandbox.handle.data.address
        if (isAstray) {
          const text = `what is sent to ${shortID(route.sandboxID)} goes to ${shortID(sandboxID)}, which has its address now`
          report(new Violation('route', text))
        }
      }
      const admitted = gateClientOf(String(sandbox.handle.data.address))
      if (admitted !== undefined && admitted !== sandboxID) {
        const text = `the gate lets ${shortID(sandboxID)} out as ${shortID(admitted)}, which had its address before`
        report(new Violation('route', text))
      }
      return super.set(sandboxID, sandbox)
    }
  }

  world.snapshots = new WatchedSnapshots()
  world.sandboxes = new WatchedSandboxes()
  return world
}
