/** Where the reader is signed in. */
import type { OpenSession } from '../../contract/rest/session.ts'
import { ago, fullTime } from '../browser/format.ts'
import { useLive, useNow } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { isPerson, session } from '../browser/session.ts'
import { Tag } from '../parts/badges.tsx'
import { Button } from '../parts/button.tsx'
import { confirmFirst } from '../parts/dialog.tsx'
import { Card, Empty, Loaded, Table, ViewHead } from '../parts/layout.tsx'
import { showDone } from '../parts/toasts.tsx'

export function SessionsView() {
  const person = session.use()?.person
  const live = useLive(isPerson() ? 'sessions' : '', () => ask<OpenSession[]>('/sessions'), 10_000)
  const now = useNow(10_000)
  const end = async ({ sessionID }: OpenSession) => {
    await ask(`/sessions/${sessionID}`, { method: 'DELETE' })
    showDone('The session has ended.')
    await live.reload()
  }
  const endOthers = () =>
    confirmFirst(
      'End all other sessions?',
      'Every other browser has to sign in again.',
      'End them',
      async () => {
        await ask('/sessions', { method: 'DELETE' })
        showDone('All other sessions have ended.')
        await live.reload()
      },
    )
  if (!person) {
    return (
      <div class="view">
        <ViewHead title="Sessions" />
        <Empty icon="user" title="Only people have sessions">
          <p>A key is used from anywhere, until it is revoked.</p>
        </Empty>
      </div>
    )
  }
  const hasOthers = (live.data?.length ?? 0) > 1
  return (
    <div class="view">
      <ViewHead title="Sessions" note={`Where ${person.email ?? person.name} is signed in.`}>
        {hasOthers && <Button onPress={endOthers}>End all others</Button>}
      </ViewHead>
      <Loaded live={live}>
        {(rows) => (
          <Card flush>
            <Table
              label="Sessions"
              rows={rows}
              keyOf={({ sessionID }) => sessionID}
              columns={[
                { name: 'Browser', cell: (row) => <Browser row={row} /> },
                { name: 'Signed in', wide: true, cell: ({ createdAt }) => fullTime(createdAt) },
                { name: 'Last used', cell: ({ lastUsedAt }) => ago(lastUsedAt, now) },
                { name: 'Ends', wide: true, cell: ({ expiresAt }) => fullTime(expiresAt) },
                {
                  name: '',
                  end: true,
                  cell: (row) =>
                    !row.isCurrent && (
                      <Button small kind="danger" label="End this session" onPress={() => end(row)}>
                        End
                      </Button>
                    ),
                },
              ]}
            />
          </Card>
        )}
      </Loaded>
    </div>
  )
}

function Browser({ row: { userAgent, address, isCurrent } }: { row: OpenSession }) {
  return (
    <span class="two">
      <span class="name">
        {nameOf(userAgent)} {isCurrent && <Tag>this one</Tag>}
      </span>
      <span class="faint mono cut">{address ?? 'from an unknown address'}</span>
    </span>
  )
}

/** The first name that matches is what people call it: browsers name others, too. */
const browsers = [
  [/Edg\//, 'Edge'],
  [/OPR\//, 'Opera'],
  [/Firefox\//, 'Firefox'],
  [/Chrom(e|ium)\//, 'Chrome'],
  [/Safari\//, 'Safari'],
] as const
const systems = [
  [/Android/, 'Android'],
  [/iPhone|iPad/, 'iOS'],
  [/Windows/, 'Windows'],
  [/Mac OS/, 'macOS'],
  [/Linux/, 'Linux'],
] as const

function nameOf(userAgent: string | null): string {
  const text = userAgent ?? ''
  const find = (list: readonly (readonly [RegExp, string])[]) => list.find(([form]) => form.test(text))?.[1]
  const browser = find(browsers)
  const system = find(systems)
  if (browser === undefined) return text === '' ? 'Unknown browser' : text.slice(0, 40)
  return system === undefined ? browser : `${browser} on ${system}`
}
