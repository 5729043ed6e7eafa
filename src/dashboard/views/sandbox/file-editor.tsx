import { useEffect, useState } from 'preact/hooks'
import { type FolderEntry, textOf } from '../../browser/file-paths.ts'
import { bytes } from '../../browser/format.ts'
import { messageFor } from '../../browser/rest.ts'
import type { Sandbox } from '../../browser/sandbox-client.ts'
import { Button } from '../../parts/button.tsx'
import { Empty, Waiting } from '../../parts/layout.tsx'
import { showDone } from '../../parts/toasts.tsx'

/** More does not fit a text area well. */
const maxBytes = 1024 * 1024

type Content = { text: string } | { problem: string } | undefined

type EditorProps = {
  client: Sandbox
  entry: FolderEntry
  onClose: () => void
  onDownload: () => Promise<void>
  onSaved: () => Promise<void>
}

export function FileEditor({ client, entry, onClose, onDownload, onSaved }: EditorProps) {
  const [content, setContent] = useState<Content>()
  const [text, setText] = useState('')
  useEffect(() => {
    readText(client, entry).then((read) => {
      setContent(read)
      if (read && 'text' in read) setText(read.text)
    })
  }, [])
  const saved = content && 'text' in content ? content.text : undefined
  const save = async () => {
    await client.files.write(entry.path, text)
    setContent({ text })
    showDone(`${entry.name} is saved.`)
    await onSaved()
  }
  return (
    <section class="pane" aria-label={entry.name}>
      <header>
        <span class="path cut" title={entry.path}>
          {entry.path}
        </span>
        {saved !== undefined && (
          <Button kind="primary" small disabled={text === saved} onPress={save}>
            Save
          </Button>
        )}
        <Button kind="quiet" small icon="download" label="Download" onPress={onDownload} />
        <Button kind="quiet" small icon="x" label="Close the file" onPress={onClose} />
      </header>
      {content === undefined && <Waiting />}
      {content && 'problem' in content && (
        <Empty icon="file" title="It cannot be shown as text">
          <p>{content.problem}</p>
        </Empty>
      )}
      {saved !== undefined && (
        <textarea
          class="mono"
          aria-label={`Content of ${entry.name}`}
          spellcheck={false}
          wrap="off"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      )}
    </section>
  )
}

async function readText(client: Sandbox, { path, size }: FolderEntry): Promise<Content> {
  if (size > maxBytes) return { problem: `It has ${bytes(size)}: download it instead.` }
  try {
    const content = await client.files.read(path, { format: 'bytes', user: 'root' })
    const text = textOf(content)
    return text === undefined ? { problem: 'It holds other bytes than text: download it instead.' } : { text }
  } catch (error) {
    return { problem: messageFor(error) }
  }
}
