/** What each team uses of the machines' memory and disk, who is above its fair share, and whom the guards touched. */
import type { NodeShares, SharesReport } from '../../contract/rest/shares.ts'
import { bytes, mebibytes } from '../browser/format.ts'
import { useLive } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { isAdmin, teamName } from '../browser/session.ts'
import { type SharesOfTeam, teamShares } from '../browser/team-shares.ts'
import { Badge } from '../parts/badges.tsx'
import { Bar } from '../parts/bar.tsx'
import { Figure } from '../parts/figure.tsx'
import { Card, Empty, Loaded, Table, ViewHead } from '../parts/layout.tsx'
import { FrozenNow, GuardActs } from './guard-acts.tsx'
import { shortID } from './nodes.tsx'
import { OperatorOnly } from './operator-only.tsx'

/** The server measures anew for each request. */
const everyMs = 10_000
const mebibyte = 1024 ** 2

export function SharesView() {
  return isAdmin() ? <Shares /> : <OperatorOnly title="Shares" what="the shares of teams" />
}

function Shares() {
  const live = useLive('shares', (signal) => ask<SharesReport>('/admin/shares', { signal }), everyMs)
  return (
    <div class="view">
      <ViewHead
        title="Shares"
        note="What each team uses of memory and disk, and what the guards did about it."
      />
      <Loaded live={live}>
        {({ nodes, missingNodes = [] }) => (
          <>
            {missingNodes.map((id) => (
              <p key={id} class="notice" role="status">
                The node {shortID(id)} does not answer, so its shares are missing here.
              </p>
            ))}
            {nodes.map((node) => (
              <NodeView key={node.nodeID} node={node} isAlone={nodes.length + missingNodes.length === 1} />
            ))}
          </>
        )}
      </Loaded>
    </div>
  )
}

function NodeView({ node, isAlone }: { node: NodeShares; isAlone: boolean }) {
  return (
    <section class="stack" aria-label={`Node ${shortID(node.nodeID)}`}>
      {!isAlone && (
        <h2>
          Node <span class="mono">{shortID(node.nodeID)}</span>
        </h2>
      )}
      <Free node={node} />
      <Teams node={node} />
      {node.frozen.length > 0 && <FrozenNow frozen={node.frozen} />}
      <GuardActs acts={node.acts} />
    </section>
  )
}

function Free({ node: { memory, disk, connections, frozen } }: { node: NodeShares }) {
  const limitOf = (startBytes: number) =>
    startBytes > 0
      ? `Below ${mebibytes(startBytes / mebibyte)}, teams above their share start nothing`
      : 'No guard watches it'
  return (
    <div class="grid figures">
      <Figure name="Memory free" value={bytes(memory.freeBytes)} note={limitOf(memory.startBytes)} />
      <Figure name="Disk free" value={bytes(disk.freeBytes)} note={limitOf(disk.startBytes)} />
      {connections && (
        <Figure
          name="Connections"
          value={connections.count.toLocaleString('en')}
          used={connections.count}
          max={connections.max}
          note="in the kernel’s table, also of other programs"
        />
      )}
      <Figure
        name="Frozen now"
        value={String(frozen.length)}
        note={frozen.length === 0 ? 'Every sandbox may go on' : 'They have lost nothing'}
      />
    </div>
  )
}

function Teams({ node }: { node: NodeShares }) {
  const teams = teamShares(node)
  const perTeam = node.connections?.perTeam
  return (
    <Card title="Teams" flush>
      {teams.length === 0 ? (
        <Empty icon="users" title="No team uses anything here">
          <p>A team appears when it has a sandbox, a snapshot or a volume on this machine.</p>
        </Empty>
      ) : (
        <Table
          label="Shares of the teams"
          rows={teams}
          keyOf={({ teamID }) => teamID}
          columns={[
            { name: 'Team', cell: ({ teamID }) => <span class="name">{teamName(teamID)}</span> },
            { name: 'Memory, of its fair share', cell: ({ memory }) => <Use share={memory} /> },
            { name: 'Disk, of its fair share', cell: ({ disk }) => <Use share={disk} /> },
            ...(perTeam === undefined
              ? []
              : [{ name: 'Connections', cell: (team: SharesOfTeam) => <Open team={team} max={perTeam} /> }]),
            { name: 'Has to give back', cell: (team) => <GiveBack team={team} /> },
          ]}
        />
      )}
    </Card>
  )
}

function Use({ share }: { share: SharesOfTeam['memory'] }) {
  if (!share) return <span class="faint">nothing</span>
  const { usedBytes, fairBytes, aboveBytes } = share
  const relation = usedBytes > fairBytes ? ', above' : ' of'
  return (
    <Bar
      part={fairBytes > 0 ? usedBytes / fairBytes : 1}
      text={`${bytes(usedBytes)}${relation} ${bytes(fairBytes)}`}
      warns={aboveBytes > 0}
    />
  )
}

function Open({ team: { connections }, max }: { team: SharesOfTeam; max: number }) {
  const [open, all] = [connections, max].map((count) => count.toLocaleString('en'))
  return <Bar part={connections / max} text={`${open} of ${all}`} />
}

/** Who is above its share has to give back only while others need it. */
function GiveBack({ team: { memory, disk } }: { team: SharesOfTeam }) {
  const parts = [
    ...(memory && memory.aboveBytes > 0 ? [`${bytes(memory.aboveBytes)} of memory`] : []),
    ...(disk && disk.aboveBytes > 0 ? [`${bytes(disk.aboveBytes)} of disk`] : []),
  ]
  if (parts.length > 0) {
    return (
      <span class="tags">
        {parts.map((part) => (
          <Badge key={part} state="warn">
            {part}
          </Badge>
        ))}
      </span>
    )
  }
  const isAbove = [memory, disk].some((share) => share && share.usedBytes > share.fairBytes)
  return <span class="soft">{isAbove ? 'nothing: nobody else needs it' : 'nothing'}</span>
}
