/** The files of a sandbox: looked at, edited, renamed, uploaded by dropping, downloaded. */
import { useRef, useState } from 'preact/hooks'
import { type FolderEntry, joinPath, sortEntries } from '../../browser/file-paths.ts'
import { useLive } from '../../browser/live.ts'
import { type Sandbox, useClient } from '../../browser/sandbox-client.ts'
import { saveBlob } from '../../browser/save-blob.ts'
import { Button } from '../../parts/button.tsx'
import { confirmFirst } from '../../parts/dialog.tsx'
import { FolderList, PathTrail } from '../../parts/folder.tsx'
import { Waiting } from '../../parts/layout.tsx'
import { NameDialog } from '../../parts/name-dialog.tsx'
import { tellDone, tellFailure } from '../../parts/toasts.tsx'
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
      ...{ name, path: full, size, mode, isFolder: type === 'dir' },
      ...(modifiedTime && { modifiedAt: modifiedTime.getTime() }),
    })),
  )
}

function Browser({ client, sandboxID }: { client: Sandbox; sandboxID: string }) {
  const [folder, setFolder] = useState(home)
  const [file, setFile] = useState<FolderEntry>()
  const [isMaking, setMaking] = useState(false)
  const [renamed, setRenamed] = useState<FolderEntry>()
  const picker = useRef<HTMLInputElement>(null)
  const live = useLive(`files ${sandboxID} ${folder}`, () => listFolder(client, folder), everyMs)
  const open = (entry: FolderEntry) => (entry.isFolder ? setFolder(entry.path) : setFile(entry))
  const upload = async (files: readonly File[]) => {
    for (const one of files) await client.files.write(joinPath(folder, one.name), one)
    tellDone(files.length === 1 ? `${files[0]!.name} is uploaded.` : `${files.length} files are uploaded.`)
    await live.reload()
  }
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
      <FolderList
        head={
          <>
            <PathTrail path={folder} onOpen={setFolder} />
            <Button kind="quiet" small icon="folder" label="New folder" onPress={() => setMaking(true)} />
            <Button kind="quiet" small icon="upload" label="Upload" onPress={() => picker.current?.click()} />
          </>
        }
        onDrop={(files) => upload(files).catch(tellFailure)}
        openPath={file?.path}
        live={live}
        onOpen={open}
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
      <input
        ref={picker}
        type="file"
        multiple
        hidden
        aria-label="Files to upload"
        onChange={(event) => {
          const input = event.currentTarget
          upload([...(input.files ?? [])]).catch(tellFailure)
          input.value = ''
        }}
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
      {isMaking && (
        <NameDialog
          title="New folder"
          action="Make it"
          mono
          onClose={() => setMaking(false)}
          onName={async (name) => {
            await client.files.makeDir(joinPath(folder, name))
            await live.reload()
          }}
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
