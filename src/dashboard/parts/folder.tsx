/** A folder's entries, with the way to it; of sandboxes and volumes alike. */
import type { ComponentChildren } from 'preact'
import { useRef, useState } from 'preact/hooks'
import { type FolderEntry, joinPath, trailOf } from '../browser/file-paths.ts'
import { bytes, fullTime, permissions } from '../browser/format.ts'
import type { Live } from '../browser/live.ts'
import { Button } from './button.tsx'
import { Icon } from './icon.tsx'
import { Empty, Loaded } from './layout.tsx'
import { NameDialog } from './name-dialog.tsx'
import { showDone, showFailure } from './toasts.tsx'

/** More entries than a person reads. */
const maxShown = 2000

function PathTrail({ path, onOpen }: { path: string; onOpen: (path: string) => void }) {
  return (
    <nav class="path" aria-label="Folder">
      {trailOf(path).map((part, at) => (
        <span key={part.path}>
          <button type="button" onClick={() => onOpen(part.path)}>
            {part.name}
          </button>
          {at > 0 && '/'}
        </span>
      ))}
    </nav>
  )
}

type FolderProps = {
  path: string
  live: Live<FolderEntry[]>
  openPath?: string | undefined
  onOpen: (entry: FolderEntry) => void
  onOpenFolder: (path: string) => void
  /** Writes one file into the folder. */
  write: (path: string, file: File) => Promise<unknown>
  makeFolder: (path: string) => Promise<unknown>
  actions: (entry: FolderEntry) => ComponentChildren
}

/** The list of a folder with all that is done to the folder itself: go elsewhere, upload by choosing or dropping, make a folder. */
export function FolderPane({ path, live, openPath, onOpen, onOpenFolder, actions, ...tools }: FolderProps) {
  const [isDropping, setDropping] = useState(false)
  const upload = async (files: readonly File[]) => {
    for (const file of files) await tools.write(joinPath(path, file.name), file)
    showDone(files.length === 1 ? `${files[0]!.name} is uploaded.` : `${files.length} files are uploaded.`)
    await live.reload()
  }
  const drag = (event: DragEvent) => {
    event.preventDefault()
    setDropping(event.type === 'dragover')
    const files = [...(event.dataTransfer?.files ?? [])]
    if (event.type === 'drop' && files.length > 0) upload(files).catch(showFailure)
  }
  return (
    <section
      class={`pane${isDropping ? ' dropping' : ''}`}
      aria-label="Files"
      onDragOver={drag}
      onDragLeave={drag}
      onDrop={drag}
    >
      <header>
        <PathTrail path={path} onOpen={onOpenFolder} />
        <NewFolder onName={(name) => tools.makeFolder(joinPath(path, name)).then(live.reload)} />
        <FilePicker onPick={(files) => upload(files).catch(showFailure)} />
      </header>
      <Loaded live={live}>
        {(entries) =>
          entries.length === 0 ? (
            <Empty icon="folder" title="This folder is empty">
              <p>Drop files here to upload them.</p>
            </Empty>
          ) : (
            <ul class="entries">
              {entries.slice(0, maxShown).map((entry) => (
                <Entry
                  key={entry.path}
                  entry={entry}
                  isOpen={entry.path === openPath}
                  onOpen={onOpen}
                  actions={actions}
                />
              ))}
              {entries.length > maxShown && <li class="hint">And {entries.length - maxShown} more.</li>}
            </ul>
          )
        }
      </Loaded>
    </section>
  )
}

function NewFolder({ onName }: { onName: (name: string) => Promise<unknown> }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button kind="quiet" small icon="folder-plus" label="New folder" onPress={() => setOpen(true)} />
      {isOpen && (
        <NameDialog title="New folder" action="Create" mono onClose={() => setOpen(false)} onName={onName} />
      )}
    </>
  )
}

function FilePicker({ onPick }: { onPick: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <Button kind="quiet" small icon="upload" label="Upload" onPress={() => input.current?.click()} />
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files to upload"
        onChange={({ currentTarget }) => {
          onPick([...(currentTarget.files ?? [])])
          currentTarget.value = ''
        }}
      />
    </>
  )
}

type EntryProps = Pick<FolderProps, 'onOpen' | 'actions'> & { entry: FolderEntry; isOpen: boolean }

function Entry({ entry, isOpen, onOpen, actions }: EntryProps) {
  const { name, size, mode, isFolder, modifiedAt } = entry
  const changed = modifiedAt === undefined ? '' : `, changed ${fullTime(modifiedAt)}`
  return (
    <li class={`${isFolder ? 'folder' : ''}${isOpen ? ' open' : ''}`}>
      <button
        type="button"
        title={`${permissions(mode, isFolder ? 'directory' : 'file')}${changed}`}
        onClick={() => onOpen(entry)}
      >
        <Icon name={isFolder ? 'folder' : 'file'} />
        <span class="cut">{name}</span>
        {!isFolder && <span class="size figures">{bytes(size)}</span>}
      </button>
      <span class="on-hover">{actions(entry)}</span>
    </li>
  )
}
