/** Converts a client's filter for a list of sandboxes to the store's filter. */
import type { ListQuery } from '../../../contract/rest/sandbox.ts'
import { type SandboxState, wireStates } from '../../../core/sandbox/row/sandbox.ts'
import type { SandboxFilter } from '../../../core/sandbox/row/sandbox-store.ts'
import type { Team } from '../../../core/team/team.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { RouteContext } from '../../context.ts'
import { parseMetadataFilter } from '../../metadata-filter.ts'

export async function parseFilter(
  context: RouteContext,
  team: Team,
  query: ListQuery,
): Promise<SandboxFilter> {
  const filter: SandboxFilter = { teamID: team.teamID, states: parseStates(query.state) }
  if (query.metadata !== undefined) filter.metadata = parseMetadataFilter(query.metadata)
  if (query.startedAfter !== undefined) filter.startedAfter = parseTime(query.startedAfter)
  if (query.template !== undefined) {
    if (query.template.includes(':')) {
      throw new AppError('invalid_argument', 'The template filter takes an id or a name without a tag')
    }
    // Also finds a template that the team may no longer use. No template has an empty ID, so an unknown one
    // matches nothing.
    filter.templateID = (await context.catalog.findOfAny(team, query.template))?.templateID ?? ''
  }
  return filter
}

function parseStates(value: ListQuery['state']): SandboxState[] {
  const names = [value ?? 'running,paused'].flat().flatMap((part) => part.split(','))
  return names.flatMap((name) => {
    if (name === 'running' || name === 'paused') return [...wireStates[name]]
    throw new AppError('invalid_argument', `validation error: state must be running or paused, not '${name}'`)
  })
}

/** The schema's format allows a leap second, which `Date` does not. */
function parseTime(text: string): number {
  const at = Date.parse(text)
  if (!Number.isNaN(at)) return at
  throw new AppError('invalid_argument', `validation error: startedAfter '${text}' is not a time`)
}
