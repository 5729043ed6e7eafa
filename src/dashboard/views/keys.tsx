import { useState } from 'preact/hooks'
import type { ApiKey } from '../../contract/rest/team.ts'
import { ago, fullTime } from '../browser/format.ts'
import { useNow } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { Button } from '../parts/button.tsx'
import { CodeBlock } from '../parts/copy.tsx'
import { confirmFirst, Dialog } from '../parts/dialog.tsx'
import { Empty, ViewHead } from '../parts/layout.tsx'
import { NameDialog } from '../parts/name-dialog.tsx'
import { NameCell, TeamList, useTeamList } from '../parts/team-list.tsx'
import { showDone } from '../parts/toasts.tsx'
import { NewKey } from './new-key.tsx'

type KeyRow = ApiKey & { team: string }

const masked = ({ prefix, maskedValuePrefix, maskedValueSuffix }: ApiKey['mask']): string =>
  `${prefix}${maskedValuePrefix}…${maskedValueSuffix}`

export function KeysView() {
  const live = useTeamList<ApiKey>('keys', (team, signal) => ask('/api-keys', { team, signal }), 10_000)
  const [isMaking, setMaking] = useState(false)
  const [made, setMade] = useState<string>()
  const [renamed, setRenamed] = useState<KeyRow>()
  const now = useNow(10_000)
  const rename = async ({ id, team }: KeyRow, name: string) => {
    await ask(`/api-keys/${encodeURIComponent(id)}`, { method: 'PATCH', body: { name: name.trim() }, team })
    await live.reload()
  }
  const revoke = ({ id, name, team }: KeyRow) =>
    confirmFirst(`Revoke ${name}?`, 'Requests with it are refused from now on.', 'Revoke', async () => {
      await ask(`/api-keys/${encodeURIComponent(id)}`, { method: 'DELETE', team })
      showDone(`The key ${name} is revoked.`)
      await live.reload()
    })
  return (
    <div class="view">
      <ViewHead title="API keys" note="What programs log in with. Only a hash of each is stored.">
        <Button kind="primary" icon="plus" onPress={() => setMaking(true)}>
          New key
        </Button>
      </ViewHead>
      <TeamList
        label="API keys"
        live={live}
        keyOf={({ id }) => id}
        columns={[
          { name: 'Name', cell: ({ name, mask }) => <NameCell name={name} note={masked(mask)} /> },
          {
            name: 'For',
            cell: ({ role, createdBy, madeBy }) => (
              <span class="two">
                <span class="name">{createdBy?.email ?? 'a service'}</span>
                <span class="faint">{createdBy || !madeBy ? role : `${role}, made by ${madeBy}`}</span>
              </span>
            ),
          },
          { name: 'Created', wide: true, cell: ({ createdAt }) => fullTime(createdAt) },
          {
            name: 'Ends',
            wide: true,
            cell: ({ expiresAt }) => <span class="soft">{expiresAt ? fullTime(expiresAt) : 'never'}</span>,
          },
          {
            name: 'Last used',
            wide: true,
            cell: ({ lastUsed, lastUsedFrom }) => (
              <span class="soft">
                {lastUsed ? ago(lastUsed, now) : 'never'}
                {lastUsedFrom !== undefined && ` from ${lastUsedFrom}`}
              </span>
            ),
          },
        ]}
        actions={(row) => (
          <>
            <Button small label={`Rename ${row.name}`} onPress={() => setRenamed(row)}>
              Rename
            </Button>
            <Button kind="danger" small label={`Revoke ${row.name}`} onPress={() => revoke(row)}>
              Revoke
            </Button>
          </>
        )}
        empty={
          <Empty icon="key" title="No key yet">
            <p>Make one, and give it to a program as E2B_API_KEY.</p>
          </Empty>
        }
      />
      {isMaking && <NewKey onClose={() => setMaking(false)} onMade={setMade} onDone={live.reload} />}
      {renamed && (
        <NameDialog
          title={`Rename ${renamed.name}`}
          action="Rename"
          name={renamed.name}
          onClose={() => setRenamed(undefined)}
          onName={(name) => rename(renamed, name)}
        />
      )}
      {made !== undefined && (
        <Dialog title="Your new key" onClose={() => setMade(undefined)}>
          <div class="dialog-body">
            <p>Copy it now: it is shown this once.</p>
            <CodeBlock code={made} label="The new key" />
          </div>
        </Dialog>
      )}
    </div>
  )
}
