/** What the guards of a machine did lately, and what they keep frozen now. */
import type { NodeShares } from '../../contract/rest/shares.ts'
import { ago, fullTime } from '../browser/format.ts'
import { useNow } from '../browser/live.ts'
import { pathTo } from '../browser/router.ts'
import { teamName } from '../browser/session.ts'
import { Badge } from '../parts/badges.tsx'
import { Card, Empty, Table } from '../parts/layout.tsx'

const lacks = { memory: 'memory', disk: 'disk space' } as const
const actors = { memory: 'the memory guard', disk: 'the disk guard', starts: 'the queue of starts' } as const

export function FrozenNow({ frozen }: Pick<NodeShares, 'frozen'>) {
  const now = useNow(5000)
  return (
    <Card title="Frozen now" flush>
      <Table
        label="Frozen sandboxes"
        rows={frozen}
        keyOf={({ sandboxID }) => sandboxID}
        columns={[
          {
            name: 'Sandbox',
            cell: ({ sandboxID, teamID }) => <SandboxLink sandboxID={sandboxID} teamID={teamID} />,
          },
          { name: 'Team', cell: ({ teamID }) => (teamID === null ? '–' : teamName(teamID)) },
          { name: 'For lack of', cell: ({ guard }) => lacks[guard] },
          {
            name: 'Since',
            cell: ({ since }) => (
              <span class="soft whole" title={fullTime(since)}>
                {ago(since, now)}
              </span>
            ),
          },
        ]}
      />
    </Card>
  )
}

export function GuardActs({ acts }: Pick<NodeShares, 'acts'>) {
  const now = useNow(5000)
  return (
    <Card title="What the guards did" flush>
      {acts.length === 0 ? (
        <Empty icon="check" title="The guards touched nobody">
          <p>
            While memory and disk space last, no sandbox is frozen, paused, ended or refused for lack of them.
            What the guards do is listed here from the start of the server on, with the reason.
          </p>
        </Empty>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
        <ul class="problems acts" aria-label="Acts of the guards" tabIndex={0}>
          {acts.map((act) => (
            <li key={`${act.guard} ${act.act} ${act.sandboxID ?? act.teamID}`}>
              <Badge state={act.act} />
              <div class="two">
                <span>{act.why}</span>
                <span class="faint">
                  {teamName(act.teamID)}
                  {act.sandboxID === undefined ? (
                    ', a request'
                  ) : (
                    <>
                      {', '}
                      <SandboxLink sandboxID={act.sandboxID} teamID={act.teamID} />
                    </>
                  )}
                  {`, by ${actors[act.guard]}`}
                </span>
              </div>
              <time class="faint" dateTime={act.lastAt} title={fullTime(act.lastAt)}>
                {act.count > 1 ? `${act.count.toLocaleString('en')} times, ` : ''}
                {ago(act.lastAt, now)}
              </time>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}

function SandboxLink({ sandboxID, teamID }: { sandboxID: string; teamID: string | null }) {
  return (
    <a class="mono" href={pathTo(['sandboxes', sandboxID], { team: teamID ?? undefined })}>
      {sandboxID}
    </a>
  )
}
