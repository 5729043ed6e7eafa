/** One figure, with how much of its limit is used. */
type FigureProps = {
  name: string
  value: string
  used?: number
  max?: number | undefined
  /** The limit as text, where a number alone would not say it. */
  of?: string
  note?: string
}

const nearlyFull = 0.85

export function Figure({ name, value, used, max, of, note }: FigureProps) {
  const part = used !== undefined && max ? Math.min(1, used / max) : undefined
  return (
    <div class="figure">
      <span class="soft">{name}</span>
      <span class="value">
        {value}
        {max !== undefined && <small> of {of ?? max.toLocaleString('en')}</small>}
      </span>
      {part !== undefined && (
        <span class={`meter${part > nearlyFull ? ' full' : ''}`} aria-hidden="true">
          <i style={{ width: `${100 * part}%` }} />
        </span>
      )}
      {note && <small class="hint">{note}</small>}
    </div>
  )
}
