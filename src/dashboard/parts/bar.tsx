/** How much of something is used, in words and as a bar. */
const nearlyFull = 0.85

type BarProps = {
  part: number
  text: string
  /** Left out: the bar warns when it is nearly full. */
  warns?: boolean
}

export function Bar({ part, text, warns = part > nearlyFull }: BarProps) {
  return (
    <span class="bar">
      <span class="figures">{text}</span>
      <span class={`meter${warns ? ' full' : ''}`} aria-hidden="true">
        <i style={{ width: `${Math.min(100, 100 * part)}%` }} />
      </span>
    </span>
  )
}
