import { useState } from 'preact/hooks'
import type { Snippet } from '../browser/snippets.ts'
import { Choice } from './fields.tsx'
import { Icon } from './icon.tsx'
import { showDone } from './toasts.tsx'

const shownMs = 1500

async function copyText(text: string): Promise<void> {
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
    showDone('Copied.')
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

/** A code example in several languages. */
export function Snippets({ snippets }: { snippets: readonly Snippet[] }) {
  const [language, setLanguage] = useState(snippets[0]!.language)
  const chosen = snippets.find((one) => one.language === language) ?? snippets[0]!
  return (
    <div class="snippets">
      <Choice
        label="Language"
        value={language}
        onChange={setLanguage}
        options={snippets.map((one) => [one.language, one.language] as const)}
      />
      {chosen.environment !== undefined && (
        <CodeBlock code={chosen.environment} label="What the shell needs before" />
      )}
      <CodeBlock code={chosen.code} label={language} />
    </div>
  )
}
