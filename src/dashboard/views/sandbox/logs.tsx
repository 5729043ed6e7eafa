import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { SandboxLogEntry } from '../../../contract/rest/logs.ts'
import { clockTime, fullTime, plainText } from '../../browser/format.ts'
import { type LogLine, LogTail } from '../../browser/log-tail.ts'
import { ask, messageFor } from '../../browser/rest.ts'
import type { SandboxRef } from '../../browser/sandboxes.ts'
import { Button } from '../../parts/button.tsx'
import { Select } from '../../parts/fields.tsx'
import { Empty, Waiting } from '../../parts/layout.tsx'
import { SearchField } from '../../parts/search-field.tsx'
import type { SandboxTabProps } from './tab-props.ts'

const everyMs = 1000
const searchAfterMs = 300
/** So near the end, the reader wants to see what comes. */
const nearEnd = 40

type Filter = { level: string; search: string }

export function LogsTab({ sandbox }: SandboxTabProps) {
  const [level, setLevel] = useState('debug')
  const [text, setText] = useState('')
  const [search, setSearch] = useState('')
  const [follows, setFollows] = useState(true)
  useEffect(() => {
    const timer = setTimeout(() => setSearch(text), searchAfterMs)
    return () => clearTimeout(timer)
  }, [text])
  const { lines, problem } = useLog(sandbox, { level, search })
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (follows) box.current?.scrollTo({ top: box.current.scrollHeight })
  }, [lines, follows])
  const scrolled = () => {
    const element = box.current
    if (element) setFollows(element.scrollHeight - element.scrollTop - element.clientHeight < nearEnd)
  }
  return (
    <>
      <div class="toolbar">
        <SearchField label="Search the log" placeholder="Search the log" value={text} onInput={setText} />
        <Select
          label="Least level"
          hideLabel
          value={level}
          onChange={setLevel}
          options={[
            ['debug', 'All levels'],
            ['info', 'Info and worse'],
            ['warn', 'Warnings and errors'],
            ['error', 'Errors'],
          ]}
        />
        <Button icon="down" pressed={follows} onPress={() => setFollows(!follows)}>
          Follow
        </Button>
      </div>
      {problem !== undefined && (
        <p class="problem" role="alert">
          {messageFor(problem)}
        </p>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard */}
      <div class="log" ref={box} onScroll={scrolled} role="log" aria-label="Log" aria-live="off" tabIndex={0}>
        {lines === undefined ? (
          problem === undefined && <Waiting />
        ) : lines.length === 0 ? (
          <Empty icon="list" title={search === '' ? 'Nothing was logged' : 'Nothing matches'}>
            <p>What commands print, and what happens to the sandbox, is shown here as it comes.</p>
          </Empty>
        ) : (
          lines.map((line) => <Line key={line.key} line={line} />)
        )}
      </div>
    </>
  )
}

function Line({ line: { timestamp, level, message, fields } }: { line: LogLine }) {
  const source = fields.cmd ?? fields.process ?? fields.logger
  return (
    <div class="entry">
      <time dateTime={timestamp} title={fullTime(timestamp)}>
        {clockTime(timestamp)}
      </time>
      <span class={`level ${level}`}>{level}</span>
      <span class="message">
        {source !== undefined && <span class="source">{source} </span>}
        {plainText(message)}
      </span>
    </div>
  )
}

/** The newest entries first, and then whatever comes. */
function useLog({ sandboxID, team }: SandboxRef, { level, search }: Filter) {
  /** Undefined until the first answer. */
  const [lines, setLines] = useState<readonly LogLine[]>()
  const [problem, setProblem] = useState<unknown>()
  const key = useMemo(() => [sandboxID, level, search].join(' '), [sandboxID, level, search])
  useEffect(() => {
    const stopped = new AbortController()
    const tail = new LogTail()
    let timer: ReturnType<typeof setTimeout>
    setLines(undefined)
    const read = async (more: Record<string, string>) => {
      const query = new URLSearchParams({ level, ...(search !== '' && { search }), ...more })
      const path = `/v2/sandboxes/${sandboxID}/logs?${query}`
      return (await ask<{ logs: SandboxLogEntry[] }>(path, { team, signal: stopped.signal })).logs
    }
    const round = async () => {
      try {
        const isFirst = tail.cursor === 0
        const found = isFirst
          ? (await read({ direction: 'backward' })).reverse()
          : await read({ direction: 'forward', cursor: String(tail.cursor) })
        if (stopped.signal.aborted) return
        if (tail.add(found) || isFirst) setLines(tail.lines)
        setProblem(undefined)
      } catch (error) {
        if (stopped.signal.aborted) return
        setProblem(error)
      }
      timer = setTimeout(() => (document.hidden ? wait() : void round()), everyMs)
    }
    const wait = () => {
      timer = setTimeout(() => (document.hidden ? wait() : void round()), everyMs)
    }
    void round()
    return () => {
      stopped.abort()
      clearTimeout(timer)
    }
  }, [key])
  return { lines, problem }
}
