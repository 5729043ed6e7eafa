/** The files of a sandbox: looked at, edited, renamed, uploaded by dropping, downloaded. */
import { useState } from 'preact/hooks'
import { type FolderEntry, joinPath, sortEntries } from '../../browser/file-paths.ts'
import { useLive } from '../../browser/live.ts'
import { type Sandbox, useClient } from '../../browser/sandbox-client.ts'
import { saveBlob } from '../../browser/save-blob.ts'
import { Button } from '../../parts/button.tsx'
import { confirmFirst } from '../../parts/dialog.tsx'
import { FolderPane } from '../../parts/folder.tsx'
import { Waiting } from '../../parts/layout.tsx'
import { NameDialog } from '../../parts/name-dialog.tsx'
import { FileEditor } from './file-editor.tsx'
import type { SandboxTabProps } from './tab-props.ts'

const home = '/home/user'
const everyMs = 5000

export function FilesTab({ detail }: SandboxTabProps) {
  const client = useClient(detail)
  return client ? <Browser client={client} sandboxID={detail.sandboxID} /> : <Waiting />
}

async function listFolder(client: Sandbox, path: string): Promise<FolderEntry[]> {
  const entries = await client.files.list(path, { user: 'root' })
  return sortEntries(
    entries.map(({ name, path: full, type, size, mode, modifiedTime }) => ({
      name,
      path: full,
      size,
      mode,
      isFolder: type === 'dir',
      ...(modifiedTime && { modifiedAt: modifiedTime.getTime() }),
    })),
  )
}

function Browser({ client, sandboxID }: { client: Sandbox; sandboxID: string }) {
  const [folder, setFolder] = useState(home)
  const [file, setFile] = useState<FolderEntry>()
  const [renamed, setRenamed] = useState<FolderEntry>()
  const live = useLive(`files ${sandboxID} ${folder}`, () => listFolder(client, folder), everyMs)
  const open = (entry: FolderEntry) => (entry.isFolder ? setFolder(entry.path) : setFile(entry))
  const download = async ({ name, path }: FolderEntry) =>
    saveBlob(name, await client.files.read(path, { format: 'blob', user: 'root' }))
  const rename = async ({ path }: FolderEntry, name: string) => {
    if (live.data?.some((entry) => entry.name === name)) throw new Error(`There is a ${name} already.`)
    await client.files.rename(path, joinPath(folder, name), { user: 'root' })
    if (file?.path === path) setFile(undefined)
    await live.reload()
  }
  const remove = ({ name, path, isFolder }: FolderEntry) =>
    confirmFirst(`Delete ${name}?`, isFolder ? 'Everything in it goes too.' : path, 'Delete', async () => {
      await client.files.remove(path, { user: 'root' })
      if (file?.path === path) setFile(undefined)
      await live.reload()
    })
  return (
    <div class={`files${file ? '' : ' alone'}`}>
      <FolderPane
        path={folder}
        live={live}
        openPath={file?.path}
        onOpen={open}
        onOpenFolder={setFolder}
        write={(path, data) => client.files.write(path, data)}
        makeFolder={(path) => client.files.makeDir(path)}
        actions={(entry) => (
          <>
            {!entry.isFolder && (
              <Button
                kind="quiet"
                small
                icon="download"
                label={`Download ${entry.name}`}
                onPress={() => download(entry)}
              />
            )}
            <Button
              kind="quiet"
              small
              icon="edit"
              label={`Rename ${entry.name}`}
              onPress={() => setRenamed(entry)}
            />
            <Button
              kind="quiet"
              small
              icon="trash"
              label={`Delete ${entry.name}`}
              onPress={() => remove(entry)}
            />
          </>
        )}
      />
      {file && (
        <FileEditor
          key={file.path}
          client={client}
          entry={file}
          onClose={() => setFile(undefined)}
          onDownload={() => download(file)}
          onSaved={live.reload}
        />
      )}
      {renamed && (
        <NameDialog
          title={`Rename ${renamed.name}`}
          action="Rename"
          name={renamed.name}
          mono
          onClose={() => setRenamed(undefined)}
          onName={(name) => rename(renamed, name)}
        />
      )}
    </div>
  )
}
