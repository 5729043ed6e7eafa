/** A folder's entries, with the way to it; of sandboxes and volumes alike. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { type FolderEntry, trailOf } from '../browser/file-paths.ts'
import { bytes, fullTime, permissions } from '../browser/format.ts'
import type { Live } from '../browser/live.ts'
import { Icon } from './icon.tsx'
import { Empty, Loaded } from './layout.tsx'

/** More entries than a person reads. */
const mostShown = 2000

export function PathTrail({ path, onOpen }: { path: string; onOpen: (path: string) => void }) {
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
  head: ComponentChildren
  live: Live<FolderEntry[]>
  openPath?: string | undefined
  onOpen: (entry: FolderEntry) => void
  onDrop?: (files: readonly File[]) => void
  actions?: (entry: FolderEntry) => ComponentChildren
}

export function FolderList({ head, live, openPath, onOpen, onDrop, actions }: FolderProps) {
  const [isDropping, setDropping] = useState(false)
  const drag = (event: DragEvent) => {
    if (!onDrop) return
    event.preventDefault()
    setDropping(event.type === 'dragover')
    const files = [...(event.dataTransfer?.files ?? [])]
    if (event.type === 'drop' && files.length > 0) onDrop(files)
  }
  return (
    <section
      class={`pane${isDropping ? ' dropping' : ''}`}
      aria-label="Files"
      onDragOver={drag}
      onDragLeave={drag}
      onDrop={drag}
    >
      <header>{head}</header>
      <Loaded live={live}>
        {(entries) =>
          entries.length === 0 ? (
            <Empty icon="folder" title="This folder is empty">
              {onDrop && <p>Drop files here to upload them.</p>}
            </Empty>
          ) : (
            <ul class="entries">
              {entries.slice(0, mostShown).map((entry) => (
                <Entry
                  key={entry.path}
                  entry={entry}
                  isOpen={entry.path === openPath}
                  {...{ onOpen, actions }}
                />
              ))}
              {entries.length > mostShown && <li class="hint">And {entries.length - mostShown} more.</li>}
            </ul>
          )
        }
      </Loaded>
    </section>
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
      {actions && <span class="on-hover">{actions(entry)}</span>}
    </li>
  )
}
