/** The teams of a reader who is in several, to look at one of them. */
import { type KnownTeam, setScope } from '../browser/session.ts'
import { Tag } from '../parts/badges.tsx'
import { Card, Table, ViewHead } from '../parts/layout.tsx'

export function TeamChoice({ teams }: { teams: readonly KnownTeam[] }) {
  return (
    <div class="view">
      <ViewHead title="Teams" note="The teams that you are in." />
      <Card flush>
        <Table
          label="Teams"
          rows={teams}
          keyOf={({ teamID }) => teamID}
          columns={[
            {
              name: 'Team',
              cell: ({ teamID, name, slug }) => (
                <span class="two">
                  <button type="button" class="plain-link name" onClick={() => setScope(teamID)}>
                    {name}
                  </button>
                  <span class="faint mono">{slug}</span>
                </span>
              ),
            },
            { name: 'Your role', cell: ({ role }) => <Tag>{role ?? 'owner'}</Tag> },
          ]}
        />
      </Card>
    </div>
  )
}
