/**
 * How long the lists of a team may become: each entry is a row that somebody reads, and long lists delay other teams. Keys,
 * secrets, webhooks and volumes have their limits beside their nouns; docs/teams.md has all of them in a table.
 */
import { AppError } from '../../lib/app-error.ts'

export const listLimits = {
  /** Snapshots of sandboxes are templates too. */
  templatesPerTeam: 10_000,
  tagsPerTemplate: 1000,
  /** Assignments of one tag to ready builds, of which only the newest counts. */
  assignmentsPerTag: 10,
  /** Failed builds of one template. Older ones are forgotten. */
  failedBuildsPerTemplate: 100,
  /** Archives of one team that builds copy files from. The one used longest ago makes way. */
  uploadsPerTeam: 2000,
} as const

export const listIsFull = (message: string): AppError =>
  new AppError('limit_reached', message, { retry: { should: false } })
