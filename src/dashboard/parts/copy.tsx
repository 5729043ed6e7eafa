import { useState } from 'preact/hooks'
import { Choice } from './fields.tsx'
import { Icon } from './icon.tsx'
import { tellDone } from './toasts.tsx'

const shownMs = 1500

export async function copyText(text: string): Promise<void> {
  // Plain HTTP on another machine has no clipboard for pages.
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [isCopied, setCopied] = useState(false)
  const copy = async () => {
    await copyText(text)
    setCopied(true)
    tellDone('Copied.')
    setTimeout(() => setCopied(false), shownMs)
  }
  return (
    <button type="button" class="button quiet small bare" aria-label={label} title={label} onClick={copy}>
      <Icon name={isCopied ? 'check' : 'copy'} />
    </button>
  )
}

/** Text to paste elsewhere. */
export function CodeBlock({ code, label }: { code: string; label: string }) {
  return (
    <div class="code">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard */}
      <pre tabIndex={0} title={label}>
        <code>{code}</code>
      </pre>
      <CopyButton text={code} label={`Copy: ${label}`} />
    </div>
  )
}

/** The same in several languages. */
export function Snippets({ snippets }: { snippets: readonly (readonly [language: string, code: string])[] }) {
  const [language, setLanguage] = useState(snippets[0]![0])
  const code = snippets.find(([name]) => name === language)?.[1] ?? ''
  return (
    <div class="snippets">
      <Choice
        label="Language"
        value={language}
        onChange={setLanguage}
        options={snippets.map(([name]) => [name, name] as const)}
      />
      <CodeBlock code={code} label={language} />
    </div>
  )
}
