/** Closes the ports of the server so that clients notice as little as possible. */
import { delay } from '../lib/clock.ts'
import type { RequestsUnderWay } from '../lib/requests-under-way.ts'

/** Requests that are less old may finish: short commands and creates, also on a busy machine. */
const finishWithinMs = 5000
/** All others have this time. */
const leastGraceMs = 1000

export type ClosingDoors = {
  /** Each rejects new connections, and cuts the open ones after that time, or when the promise resolves. */
  doors: readonly ((graceMs: number, finished: Promise<void>) => Promise<void>)[]
  underWay: RequestsUnderWay
  /** Cuts upgraded connections, which the doors do not know and would wait for. */
  cutTunnels: () => void
}

export async function closeDoors({ doors, underWay, cutTunnels }: ClosingDoors): Promise<void> {
  const finished = delay(leastGraceMs).then(() => underWay.letFinish(finishWithinMs))
  const closed = Promise.all(doors.map((close) => close(leastGraceMs + finishWithinMs, finished)))
  await Promise.race([closed, finished])
  cutTunnels()
  await closed
}
