/** The machines of the cluster: drained, let back, or forgotten when they do not come back. */
import type { ForgottenNode, Node } from '../../contract/rest/node.ts'
import { bytes, count, percent } from '../browser/format.ts'
import { ask } from '../browser/rest.ts'
import { Badge } from '../parts/badges.tsx'
import { Bar } from '../parts/bar.tsx'
import { Button } from '../parts/button.tsx'
import { confirmFirst } from '../parts/dialog.tsx'
import { Card, Table } from '../parts/layout.tsx'
import { showDone } from '../parts/toasts.tsx'

export const shortID = (id: string): string => id.slice(0, 12)

export function Nodes({ nodes, onChange }: { nodes: readonly Node[]; onChange: () => Promise<void> }) {
  return (
    <Card title={nodes.length === 1 ? 'This machine' : 'Machines'} flush>
      <Table
        label="Machines"
        rows={nodes}
        keyOf={({ id }) => id}
        columns={[
          { name: 'Node', cell: ({ id, problem }) => <NodeName id={id} problem={problem} /> },
          { name: 'State', cell: ({ status }) => <Badge state={status} /> },
          { name: 'Sandboxes', end: true, cell: ({ sandboxCount }) => sandboxCount },
          {
            name: 'CPU',
            cell: ({ metrics: { cpuPercent, cpuCount } }) => (
              <Bar part={cpuPercent / 100} text={`${percent(cpuPercent)} of ${cpuCount}`} />
            ),
          },
          {
            name: 'Memory',
            cell: ({ metrics: { memoryUsedBytes: used, memoryTotalBytes: total } }) => (
              <Bar part={used / total} text={`${bytes(used)} of ${bytes(total)}`} />
            ),
          },
          {
            name: 'Disk',
            wide: true,
            cell: ({ metrics: { disks } }) =>
              disks[0] && (
                <Bar
                  part={disks[0].usedBytes / disks[0].totalBytes}
                  text={`${bytes(disks[0].usedBytes)} of ${bytes(disks[0].totalBytes)}`}
                />
              ),
          },
          { name: 'Creates', end: true, wide: true, cell: ({ createSuccesses }) => createSuccesses },
          // A machine alone has no other that could take what it does.
          ...(nodes.length > 1
            ? [{ name: '', end: true, cell: (node: Node) => <NodeActions node={node} onChange={onChange} /> }]
            : []),
        ]}
      />
    </Card>
  )
}

function NodeName({ id, problem }: Pick<Node, 'id' | 'problem'>) {
  return (
    <>
      <span class="mono">{shortID(id)}</span>
      {problem !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
    </>
  )
}

type ActionsProps = { node: Node; onChange: () => Promise<void> }

function NodeActions({ node: { id, status }, onChange }: ActionsProps) {
  const name = shortID(id)
  const setStatus = async (wanted: 'ready' | 'draining') => {
    await ask(`/nodes/${encodeURIComponent(id)}`, { body: { status: wanted }, repeatable: true })
    showDone(wanted === 'ready' ? `${name} gets new sandboxes again.` : `${name} gets no new sandboxes.`)
    await onChange()
  }
  const forget = () =>
    confirmFirst(
      `Forget ${name}?`,
      'For a machine that does not come back: what ran on it ends, and what only its disk had is lost.',
      'Forget',
      async () => {
        const path = `/admin/nodes/${encodeURIComponent(id)}`
        const lost = await ask<ForgottenNode>(path, { method: 'DELETE', repeatable: false })
        const parts = [
          ...[count(lost.sandboxes, 'sandbox', 'sandboxes'), count(lost.builds, 'build')],
          count(lost.volumes, 'volume'),
        ]
        showDone(`${name} is forgotten; lost with it: ${parts.join(', ')}.`)
        await onChange()
      },
    )
  return (
    <div class="actions">
      {status === 'ready' && (
        <Button
          small
          label={`Drain ${name}`}
          title="The node gets no new sandboxes; its sandboxes keep running."
          onPress={() => setStatus('draining')}
        >
          Drain
        </Button>
      )}
      {status === 'draining' && (
        <Button
          small
          label={`Undrain ${name}`}
          title="It gets new sandboxes again."
          onPress={() => setStatus('ready')}
        >
          Undrain
        </Button>
      )}
      {status === 'unhealthy' && (
        <Button kind="danger" small label={`Forget ${name}`} onPress={forget}>
          Forget
        </Button>
      )}
    </div>
  )
}
