/** Rows that a request of a team may use: each function returns the row, or throws the error for the request. */

import type { Team } from '../../team/team.ts'
import * as errors from './errors.ts'
import { isVisible, type Sandbox } from './sandbox.ts'

/** Returns the sandbox if it runs; otherwise throws the error for a request that needs a running sandbox. */
export function running(sandbox: Sandbox): Sandbox {
  const { sandboxID, state, runUntil } = sandbox
  if (state === 'paused') {
    throw runUntil === null ? errors.sandboxNotFound(sandboxID) : errors.sandboxIsBusy(sandboxID, 'moving')
  }
  if (state !== 'running') throw errors.sandboxIsBusy(sandboxID, state)
  return sandbox
}

/** Returns the row if it belongs to the team and has not ended. */
export function owned<Row extends Sandbox>(team: Team, sandboxID: string, row: Row | undefined): Row {
  if (!row) throw new errors.SandboxNotHere(sandboxID)
  if (row.teamID !== team.teamID || row.state === 'ended') throw errors.sandboxNotFound(sandboxID)
  return row
}

/** A sandbox that is being created is not found; one that is being killed gets an error of its own. */
export function known<Row extends Sandbox>(team: Team, sandboxID: string, row: Row | undefined): Row {
  const mine = owned(team, sandboxID, row)
  if (mine.state === 'creating') throw errors.sandboxNotFound(sandboxID)
  if (mine.state === 'killing') throw errors.sandboxEnds(sandboxID)
  return mine
}

/** A sandbox that is being created or killed is not found, as if it did not exist. */
export function visible<Row extends Sandbox>(team: Team, sandboxID: string, row: Row | undefined): Row {
  if (!row) throw new errors.SandboxNotHere(sandboxID)
  if (row.teamID !== team.teamID || !isVisible(row.state)) throw errors.sandboxNotFound(sandboxID)
  return row
}
