import type { BuildLogEntry, BuildStatusAnswer, TemplateBuild } from '../../contract/rest/template.ts'
import { stepsOf } from '../browser/build-steps.ts'
import { clockTime, plainText, shortDuration } from '../browser/format.ts'
import { type Live, now, useLive } from '../browser/live.ts'
import { ask } from '../browser/rest.ts'
import { Card, Loaded } from '../parts/layout.tsx'

const pageSize = 100
/** More lines of a build than a person reads here. */
const mostEntries = 3000
const everyMs = 1500

type BuildRead = { entries: BuildLogEntry[]; problem: string | undefined }

/** Reads on from where the last answer ended. */
async function readBuild(path: string, team: string | undefined, known: BuildLogEntry[]): Promise<BuildRead> {
  const entries = [...known]
  for (;;) {
    const query = `logsOffset=${entries.length}&limit=${pageSize}`
    const { logEntries, reason } = await ask<BuildStatusAnswer>(`${path}/status?${query}`, { team })
    entries.push(...logEntries)
    if (logEntries.length < pageSize || entries.length >= mostEntries)
      return { entries, problem: reason?.message }
  }
}

export function BuildLog(props: { build: TemplateBuild; templateID: string; team: string | undefined }) {
  const { build, templateID, team } = props
  const path = `/templates/${encodeURIComponent(templateID)}/builds/${build.buildID}`
  const isGoing = build.status === 'building' || build.status === 'waiting'
  const live: Live<BuildRead> = useLive<BuildRead>(
    `build ${build.buildID} ${isGoing}`,
    () => readBuild(path, team, live.data?.entries ?? []),
    isGoing ? everyMs : 0,
  )
  const endedAt = build.finishedAt ? Date.parse(build.finishedAt) : now()
  return (
    <Card title={`Log of build ${build.buildID.slice(0, 8)}`}>
      <Loaded live={live}>
        {({ entries, problem }) => (
          <>
            {problem !== undefined && <p class="problem">{problem}</p>}
            <Steps entries={entries} endedAt={endedAt} />
            {entries.length === 0 ? (
              <p class="faint">This build has no log.</p>
            ) : (
              // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
              <div class="log short" role="log" aria-label="Log of the build" tabIndex={0}>
                {entries.map(({ timestamp, level, message }, at) => (
                  <div class="entry" key={at}>
                    <time dateTime={timestamp}>{clockTime(timestamp)}</time>
                    <span class={`level ${level}`}>{level}</span>
                    <span class="message">{plainText(message)}</span>
                  </div>
                ))}
              </div>
            )}
          </>
        )}
      </Loaded>
    </Card>
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
