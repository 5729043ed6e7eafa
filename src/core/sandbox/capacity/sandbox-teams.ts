/**
 * Tells the guards, which look several times a second, whose each sandbox on this machine is. The team of a sandbox never
 * changes, so each one is looked up once.
 */
import type { Clock } from '../../../lib/clock.ts'
import { noTeam } from './team-share.ts'

type SandboxTeamsParts = {
  /** Teams of those sandboxes that have, or had, a row. */
  findTeams: (sandboxIDs: readonly string[]) => Promise<Map<string, string>>
  /** Whether the sandbox waits in the warm pool, for any team. */
  isPooled: (sandboxID: string) => boolean
  /** The template whose build the sandbox works for. */
  builtTemplate: (sandboxID: string) => string | undefined
  findTemplateTeam: (templateID: string) => Promise<string | undefined>
  clock: Clock
}

/** A look of a guard does not wait longer than this for the database. */
const waitMs = 200

export class SandboxTeams {
  readonly #parts: SandboxTeamsParts
  #known = new Map<string, string>()
  #lookUp: Promise<Map<string, string>> | undefined

  constructor(parts: SandboxTeamsParts) {
    this.#parts = parts
  }

  /**
   * Returns the team of each sandbox; `noTeam` for those that belong to none. A sandbox whose team could not be found out
   * yet is missing: nobody may act against it for a team's sake.
   */
  async of(sandboxIDs: readonly string[]): Promise<Map<string, string>> {
    const pooled = new Set(sandboxIDs.filter(this.#parts.isPooled))
    const unknown = sandboxIDs.filter((sandboxID) => !this.#known.has(sandboxID) && !pooled.has(sandboxID))
    const found = unknown.length > 0 ? await this.#findSoon(unknown) : new Map<string, string>()
    this.#forgetOthers(sandboxIDs)
    return new Map(
      sandboxIDs.flatMap((sandboxID): [string, string][] => {
        const teamID = pooled.has(sandboxID) ? noTeam : (this.#known.get(sandboxID) ?? found.get(sandboxID))
        return teamID === undefined ? [] : [[sandboxID, teamID]]
      }),
    )
  }

  async #findSoon(unknown: readonly string[]): Promise<Map<string, string>> {
    const none = new Map<string, string>()
    // A look-up under way belongs to an earlier look; its result is there for the next one.
    if (this.#lookUp) return none
    this.#lookUp = this.#find(unknown).finally(() => {
      this.#lookUp = undefined
    })
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = this.#parts.clock.after(waitMs, resolve)
    return Promise.race([this.#lookUp, promise.then(() => none)]).finally(cancel)
  }

  async #find(unknown: readonly string[]): Promise<Map<string, string>> {
    const { findTeams, builtTemplate, findTemplateTeam } = this.#parts
    const found = new Map<string, string>()
    try {
      const rows = await findTeams(unknown)
      for (const sandboxID of unknown) {
        const templateID = builtTemplate(sandboxID)
        const teamID =
          rows.get(sandboxID) ?? (templateID === undefined ? undefined : await findTemplateTeam(templateID))
        // It may get a row later, so the next look asks again.
        if (teamID === undefined) found.set(sandboxID, noTeam)
        else this.#known.set(sandboxID, teamID)
      }
    } catch {
      // The database does not answer. The next look asks again.
    }
    return found
  }

  #forgetOthers(sandboxIDs: readonly string[]): void {
    if (this.#known.size <= 2 * sandboxIDs.length + 100) return
    const present = new Set(sandboxIDs)
    for (const sandboxID of this.#known.keys()) if (!present.has(sandboxID)) this.#known.delete(sandboxID)
  }
}
