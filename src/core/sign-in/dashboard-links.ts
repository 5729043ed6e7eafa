/**
 * Codes of links that log in to the dashboard once. They live in the memory of this server, because a link is opened on the machine
 * on which it was made, minutes later.
 */
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { randomHex } from '../../lib/ids.ts'

const linkLifetimeMs = 10 * 60_000
/** The oldest gives way. */
const maxLinks = 100

type DashboardLink = { code: string; expiresAt: number }

export class DashboardLinks {
  readonly #clock: Clock
  readonly #links = new Map<string, { teamID: string; expiresAt: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  create(teamID: string): DashboardLink {
    const code = randomHex(32)
    const expiresAt = this.#clock.now() + linkLifetimeMs
    this.#links.set(code, { teamID, expiresAt })
    if (this.#links.size > maxLinks) this.#links.delete(this.#links.keys().next().value!)
    return { code, expiresAt }
  }

  /** The team that the code logs in to. The code is used up. */
  redeem(code: string): string {
    const link = this.#links.get(code)
    this.#links.delete(code)
    if (link && link.expiresAt > this.#clock.now()) return link.teamID
    throw new AppError(
      'unauthenticated',
      'This link was used before, is older than 10 minutes, or is of another start of Warren: run `warren quickstart` again.',
    )
  }
}
