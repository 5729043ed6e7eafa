/** The files of a volume. */
import { useState } from 'preact/hooks'
import type { VolumeAndToken, VolumeEntryStat } from '../../contract/rest/volume.ts'
import { type FolderEntry, joinPath, sortEntries } from '../browser/file-paths.ts'
import { ago, mebibytes } from '../browser/format.ts'
import { now, useLive } from '../browser/live.ts'
import { ask, send } from '../browser/rest.ts'
import { pathTo } from '../browser/router.ts'
import { saveBlob } from '../browser/save-blob.ts'
import { readMounts } from '../browser/volume-mounts.ts'
import { Button } from '../parts/button.tsx'
import { confirmFirst } from '../parts/dialog.tsx'
import { firstTeam } from '../parts/fields.tsx'
import { FolderPane } from '../parts/folder.tsx'
import { Card, Loaded, ViewHead } from '../parts/layout.tsx'
import { showFailure } from '../parts/toasts.tsx'
import { Mounts } from './volumes.tsx'

/** A token opens a volume for an hour. */
const freshEveryMs = 30 * 60_000
const everyMs = 5000

export function VolumeView({ volumeID, team }: { volumeID: string; team: string | undefined }) {
  const path = `/volumes/${encodeURIComponent(volumeID)}`
  const live = useLive(
    `volume ${volumeID}`,
    (signal) => ask<VolumeAndToken>(path, { team, signal }),
    freshEveryMs,
  )
  return (
    <div class="view fills">
      <Loaded live={live}>
        {(volume) => (
          <>
            <ViewHead
              trail={[[pathTo(['volumes']), 'Volumes']]}
              title={volume.name}
              note={
                <>
                  <span class="mono">{volumeID}</span>
                  <span>{mebibytes(volume.sizeMB)}</span>
                  <span>created {ago(volume.createdAt, now())}</span>
                </>
              }
            />
            <MountsOf volume={volume} team={team} />
            <VolumeFiles volume={volume} />
          </>
        )}
      </Loaded>
    </div>
  )
}

function MountsOf({ volume, team }: { volume: VolumeAndToken; team: string | undefined }) {
  const live = useLive(
    `mounts of ${volume.volumeID}`,
    async (signal) => (await readMounts(team ?? firstTeam(), signal)).get(volume.name) ?? [],
    everyMs,
  )
  return (
    <Card title="Mounted in">
      <Loaded live={live}>{(mountedIn) => <Mounts mountedIn={mountedIn} team={team} />}</Loaded>
    </Card>
  )
}

function VolumeFiles({ volume: { volumeID, token } }: { volume: VolumeAndToken }) {
  const [folder, setFolder] = useState('/')
  const headers = { Authorization: `Bearer ${token}` }
  const at = (kind: 'dir' | 'file' | 'path', path: string, more = '') =>
    `/volumecontent/${encodeURIComponent(volumeID)}/${kind}?path=${encodeURIComponent(path)}${more}`
  const live = useLive(
    `volume ${volumeID} ${folder}`,
    async (signal) => entriesOf(await ask<VolumeEntryStat[]>(at('dir', folder), { headers, signal }), folder),
    everyMs,
  )
  const download = async ({ name, path }: FolderEntry) =>
    saveBlob(name, await (await send(at('file', path), { headers })).blob())
  const write = (path: string, file: File) =>
    send(at('file', path, '&force=true'), {
      method: 'PUT',
      raw: file,
      headers: { ...headers, 'content-type': 'application/octet-stream' },
    })
  const remove = ({ name, path }: FolderEntry) =>
    confirmFirst(`Delete ${name}?`, path, 'Delete', async () => {
      await ask(at('path', path), { method: 'DELETE', headers })
      await live.reload()
    })
  return (
    <div class="files alone">
      <FolderPane
        path={folder}
        live={live}
        onOpen={(entry) => (entry.isFolder ? setFolder(entry.path) : download(entry).catch(showFailure))}
        onOpenFolder={setFolder}
        write={write}
        makeFolder={(path) => ask(at('dir', path), { method: 'POST', headers })}
        actions={(entry) => (
          <Button
            needs="member"
            kind="quiet"
            small
            icon="trash"
            label={`Delete ${entry.name}`}
            onPress={() => remove(entry)}
          />
        )}
      />
    </div>
  )
}

function entriesOf(entries: readonly VolumeEntryStat[], folder: string): FolderEntry[] {
  return sortEntries(
    entries.map(({ name, type, size, mode, mtime }) => ({
      name,
      size,
      mode,
      path: joinPath(folder, name),
      isFolder: type === 'directory',
      modifiedAt: Date.parse(mtime),
    })),
  )
}
