import type { SandboxEvent } from '../../../contract/rest/event.ts'
import { ago, fullTime } from '../../browser/format.ts'
import { useLive, useNow } from '../../browser/live.ts'
import { ask } from '../../browser/rest.ts'
import type { SandboxRef } from '../../browser/sandboxes.ts'
import { Card, Loaded } from '../../parts/layout.tsx'

const everyMs = 5000

/** `sandbox.lifecycle.created` as a person says it. */
const said = (type: string): string => {
  const word = type.split('.').at(-1)!
  const text = { checkpointed: 'snapshot taken', updated: 'timeout changed' }[word] ?? word
  return text[0]!.toUpperCase() + text.slice(1)
}

/** The events of the sandbox, the newest first. */
export function Timeline({ sandbox }: { sandbox: SandboxRef }) {
  const { sandboxID, team } = sandbox
  const path = `/events/sandboxes/${encodeURIComponent(sandboxID)}?limit=20`
  const live = useLive(
    `events ${sandboxID}`,
    (signal) => ask<SandboxEvent[]>(path, { team, signal }),
    everyMs,
  )
  const now = useNow(5000)
  return (
    <Card title="Events">
      <Loaded live={live}>
        {(events) =>
          events.length === 0 ? (
            <p class="faint">Warren knows of none.</p>
          ) : (
            <ul class="timeline">
              {events.map(({ id, type, timestamp }) => (
                <li key={id}>
                  <span>{said(type)}</span>
                  <time class="faint" dateTime={timestamp} title={fullTime(timestamp)}>
                    {ago(timestamp, now)}
                  </time>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  )
}
