/** An operator's link that does not say whose thing it leads to: finds the team that has it, and adds it to the address. */
import { useEffect } from 'preact/hooks'
import { useLive } from '../browser/live.ts'
import { ask, RestFailure } from '../browser/rest.ts'
import { address, navigate, pathTo } from '../browser/router.ts'
import { teamsInScope } from '../browser/session.ts'
import { Empty, Loaded, Waiting } from '../parts/layout.tsx'

/** Views of one thing, and where the API has that thing. */
const paths: Record<string, string> = {
  sandboxes: '/sandboxes/',
  templates: '/templates/',
  volumes: '/volumes/',
  webhooks: '/events/webhooks/',
}
const maxAtOnce = 4

export const needsTeam = (noun: string, id: string | undefined): boolean => id !== undefined && noun in paths

export function FindTeam({ noun, id }: { noun: string; id: string }) {
  const live = useLive(`team of ${noun} ${id}`, async (signal) => ({ team: await teamOf(noun, id, signal) }))
  const team = live.data?.team
  useEffect(() => {
    if (team !== undefined) navigate(pathTo(address.get().segments, { team }), true)
  }, [team])
  return (
    <Loaded live={live}>
      {(found) =>
        found.team === undefined ? (
          <Empty icon="search" title="There is nothing here">
            <p>
              No team that you look at has <span class="mono">{id}</span>. It may have ended or been deleted.{' '}
              <a href={pathTo([noun])}>See all {noun}</a> instead.
            </p>
          </Empty>
        ) : (
          <Waiting />
        )
      }
    </Loaded>
  )
}

async function teamOf(noun: string, id: string, signal: AbortSignal): Promise<string | undefined> {
  const waiting = [...teamsInScope()]
  let found: string | undefined
  const look = async () => {
    for (let next = waiting.shift(); next && found === undefined; next = waiting.shift()) {
      const { teamID } = next
      if (await has(`${paths[noun]}${encodeURIComponent(id)}`, teamID, signal)) found = teamID
    }
  }
  await Promise.all(Array.from({ length: maxAtOnce }, look))
  return found
}

const isAbsent = (error: unknown) => error instanceof RestFailure && [400, 403, 404].includes(error.status)

const has = (path: string, team: string, signal: AbortSignal): Promise<boolean> =>
  ask(path, { team, signal }).then(
    () => true,
    (error) => {
      if (isAbsent(error)) return false
      throw error
    },
  )
