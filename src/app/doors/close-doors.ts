/** Closes the ports of the server so that clients notice as little as possible. */
import { delay } from '../../lib/clock.ts'
import type { RequestsUnderWay } from '../../lib/requests-under-way.ts'

/** Requests that are less old may finish: short commands and creates, also on a busy machine. */
export const finishWithinMs = 5000
/** All others have this time. */
const minGraceMs = 1000

export type ClosingDoors = {
  /** Each rejects new connections, and cuts the open ones after `graceMs`, or when `finished` resolves. */
  doors: readonly ((closing: { graceMs: number; finished: Promise<void> }) => Promise<void>)[]
  underWay: RequestsUnderWay
  /** Whether a client may be sending a request. */
  isInUse: () => boolean
  /** Cuts upgraded connections, which the doors do not know and would wait for. */
  cutTunnels: () => void
}

export async function closeDoors({ doors, underWay, isInUse, cutTunnels }: ClosingDoors): Promise<void> {
  const finished = delay(minGraceMs).then(() => underWay.letFinish(finishWithinMs, isInUse))
  const graceMs = minGraceMs + finishWithinMs
  const closed = Promise.all(doors.map((close) => close({ graceMs, finished })))
  await Promise.race([closed, finished])
  cutTunnels()
  await closed
}
