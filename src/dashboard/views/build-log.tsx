/** The log of a build as it comes, with the time of each step and why it failed. */
import { useEffect, useRef } from 'preact/hooks'
import type { BuildLogEntry, BuildStatusAnswer, TemplateBuild } from '../../contract/rest/template.ts'
import { stepsOf } from '../browser/build-steps.ts'
import { clockTime, plainText, shortDuration } from '../browser/format.ts'
import { type Live, now, useLive } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { Loaded } from '../parts/layout.tsx'

const pageSize = 100
/** More lines of a build than a person reads here. */
const maxEntries = 3000
const everyMs = 1500
/** So near the end, in pixels, the reader wants to see what comes. */
const nearEnd = 40

type BuildRead = { entries: BuildLogEntry[]; problem: string | undefined }

/** Reads on from where the last answer ended. */
async function readBuild(path: string, team: string | undefined, known: BuildLogEntry[]): Promise<BuildRead> {
  const entries = [...known]
  for (;;) {
    const query = `logsOffset=${entries.length}&limit=${pageSize}`
    const { logEntries, reason } = await ask<BuildStatusAnswer>(`${path}?${query}`, { team })
    entries.push(...logEntries)
    if (logEntries.length < pageSize || entries.length >= maxEntries)
      return { entries, problem: reason?.message }
  }
}

type BuildLogProps = {
  build: Pick<TemplateBuild, 'buildID' | 'status' | 'finishedAt'>
  /** Answers with the status and the log of the build. */
  path: string
  team: string | undefined
}

export function BuildLog({ build, path, team }: BuildLogProps) {
  const isGoing = build.status === 'building' || build.status === 'waiting'
  const live: Live<BuildRead> = useLive<BuildRead>(
    `build ${build.buildID} ${isGoing}`,
    () => readBuild(path, team, live.data?.entries ?? []),
    isGoing ? everyMs : 0,
  )
  const endedAt = build.finishedAt ? Date.parse(build.finishedAt) : now()
  return (
    <Loaded live={live}>
      {({ entries, problem }) => (
        <>
          {problem !== undefined && <p class="problem wrapped">{plainText(problem)}</p>}
          <Steps entries={entries} endedAt={endedAt} />
          {entries.length === 0 ? (
            <p class="faint">{isGoing ? 'Nothing is logged yet.' : 'This build has no log.'}</p>
          ) : (
            <Entries entries={entries} follows={isGoing} />
          )}
        </>
      )}
    </Loaded>
  )
}

/** While the build is going, the newest entry stays in sight, unless the reader has scrolled up. */
function Entries({ entries, follows }: { entries: readonly BuildLogEntry[]; follows: boolean }) {
  const box = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  useEffect(() => {
    if (follows && isAtEnd.current) box.current?.scrollTo({ top: box.current.scrollHeight })
  }, [entries.length, follows])
  const scrolled = () => {
    const { scrollHeight, scrollTop, clientHeight } = box.current!
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < nearEnd
  }
  return (
    <div
      class="log short"
      ref={box}
      onScroll={scrolled}
      role="log"
      aria-label="Log of the build"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
      tabIndex={0}
    >
      {entries.map(({ timestamp, level, message }, at) => (
        <div class="entry" key={at}>
          <time dateTime={timestamp}>{clockTime(timestamp)}</time>
          <span class={`level ${level}`}>{level}</span>
          <span class="message">{plainText(message)}</span>
        </div>
      ))}
    </div>
  )
}

function Steps({ entries, endedAt }: { entries: readonly BuildLogEntry[]; endedAt: number }) {
  const steps = stepsOf(entries, endedAt)
  const longest = Math.max(1, ...steps.map(({ ms }) => ms))
  if (steps.length === 0) return null
  return (
    <ol class="steps">
      {steps.map(({ step, title, ms }) => (
        <li key={step}>
          <span class="cut mono" title={title}>
            {title}
          </span>
          <span class="meter" aria-hidden="true">
            <i style={{ width: `${(100 * ms) / longest}%` }} />
          </span>
          <span class="time figures">{shortDuration(ms)}</span>
        </li>
      ))}
    </ol>
  )
}
