import type { DoctorReport } from '../../contract/rest/machine.ts'
import { Badge } from '../parts/badges.tsx'

const order = { fail: 0, warn: 1, ok: 2 }

/** The checks of the doctor: failures first, with their remedies. */
export function Checks({ checks }: { checks: DoctorReport['checks'] }) {
  const sorted = [...checks].sort((a, b) => order[a.status] - order[b.status])
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard
    <ul class="problems" aria-label="Health checks" tabIndex={0}>
      {sorted.map(({ name, status, text, remedy }) => (
        <li key={name}>
          <Badge state={status} />
          <div class="two">
            <b class="name">{name}</b>
            <span class="soft">{text}</span>
            {remedy !== undefined && <span class="faint">{remedy}</span>}
          </div>
        </li>
      ))}
    </ul>
  )
}
