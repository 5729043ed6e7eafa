/**
 * Tells the driver every second whose each sandbox is, so that the kernel counts the connections of a team together. The kernel
 * decides about each new connection; nothing here is on the path of a create.
 */
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import type { CanShareConnections } from '../../ports/connection-shares.ts'
import { GuardLoop } from './guard-loop.ts'
import type { SandboxTeams } from './sandbox-teams.ts'
import { noTeam } from './team-share.ts'

type ConnectionSharesParts = {
  /** Undefined: the driver has no such shares. */
  driver: Pick<CanShareConnections, 'shareConnections'> | undefined
  sandboxTeams: Pick<SandboxTeams, 'of'>
  clock: Clock
  log: Log
}

const lookMs = 1000

export class ConnectionShares {
  readonly #parts: ConnectionSharesParts
  readonly #loop: GuardLoop

  constructor(parts: ConnectionSharesParts) {
    this.#parts = parts
    this.#loop = new GuardLoop({
      ...parts,
      work: () => this.#share(),
      everyMs: () => lookMs,
      failure:
        'The shares of connections could not be set for new sandboxes; Warren tries again every second.',
    })
  }

  start(): void {
    if (this.#parts.driver) this.#loop.start()
  }

  close(): Promise<void> {
    return this.#loop.close()
  }

  /** Tells the driver once. Never rejects. */
  look(): Promise<void> {
    return this.#loop.look()
  }

  async #share(): Promise<void> {
    const { driver, sandboxTeams } = this.#parts
    await driver?.shareConnections(async (sandboxIDs) => {
      const teamOf = await sandboxTeams.of(sandboxIDs)
      return new Map([...teamOf].filter(([, teamID]) => teamID !== noTeam))
    })
  }
}
