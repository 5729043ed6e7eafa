/** The driver of one life of a process: each step of a start, a stop and a snapshot is parked as well. */
import { ArrivingDriver } from '../../src/drivers/fake/arriving-driver.ts'
import { FakeDriver } from '../../src/drivers/fake/fake-driver.ts'
import type { FakeWorld } from '../../src/drivers/fake/fake-world.ts'
import type { ParkedCalls } from './parked-calls.ts'
import type { Plan } from './plan.ts'

export type SimulatedDriverParts = {
  process: number
  world: FakeWorld
  plan: Plan
  calls: ParkedCalls
  /** A fault put back in by hand. */
  trustsRecord: boolean
  /** Sandboxes in the middle of their start. */
  starting: Set<string>
  /** The reconciler is asking to be told of exits. */
  isWatchingExits: () => boolean
  onStarted: (sandboxID: string) => void
  onExitReported: (runID: string) => void
}

export function newSimulatedDriver(parts: SimulatedDriverParts): FakeDriver {
  const { process, world, plan, calls, starting, isWatchingExits, onStarted, onExitReported } = parts
  const { snapshotMemory, slowSnapshotsMs, slowStopsMs, arrivalMs } = plan
  const arriving = arrivalMs === undefined ? undefined : new ArrivingDriver({ world })
  const driver = arriving ?? new FakeDriver({ world, snapshotMemory })
  driver.trustsRecord = parts.trustsRecord
  const park = () => calls.park(process)
  const parkOrFail = () => calls.parkOrFail(process, 'driver')
  /** By run: how often it was started. A warm sandbox that could not be used is started again under the same name. */
  const starts = new Map<string, number>()
  driver.beforeStarted = async ({ sandboxID }) => {
    starting.add(sandboxID)
    await parkOrFail().finally(() => starting.delete(sandboxID))
  }
  driver.beforeStopped = slowStopsMs ? () => calls.park(process, slowStopsMs) : park
  if (arriving) arriving.beforeFilled = (signal) => calls.park(process, arrivalMs, signal)
  const onExit = driver.onExit.bind(driver)
  driver.onExit = (listener) => {
    const isReconciler = isWatchingExits()
    return onExit((exit) => {
      const start = starts.get(exit.runID)
      void park().then(() => {
        if (isReconciler && starts.get(exit.runID) === start) onExitReported(exit.runID)
        listener(exit)
      })
    })
  }
  const start = driver.start.bind(driver)
  driver.start = async (spec, signal) => {
    starts.set(spec.runID, (starts.get(spec.runID) ?? 0) + 1)
    const handle = await start(spec, signal)
    onStarted(spec.sandboxID)
    return handle
  }
  driver.beforeRemoved = park
  driver.beforeSnapshot = slowSnapshotsMs ? () => calls.park(process, slowSnapshotsMs) : parkOrFail
  if (plan.profile) driver.beforeEnforced = parkOrFail
  return driver
}
