import type { ComponentChildren } from 'preact'

type Tone = 'good' | 'calm' | 'warn' | 'bad'

const tones: Record<string, Tone> = {
  running: 'good',
  ready: 'good',
  delivered: 'good',
  ok: 'good',
  on: 'good',
  within: 'good',
  paused: 'calm',
  waiting: 'calm',
  pending: 'calm',
  off: 'calm',
  continued: 'calm',
  private: 'calm',
  building: 'warn',
  warn: 'warn',
  public: 'warn',
  draining: 'warn',
  retrying: 'warn',
  failing: 'warn',
  frozen: 'warn',
  refused: 'warn',
  'nearly used': 'warn',
  error: 'bad',
  'used up': 'bad',
  failed: 'bad',
  fail: 'bad',
  gone: 'bad',
  ended: 'bad',
  unhealthy: 'bad',
}

/** A state, told by a word and a colour. */
export function Badge({ state, children }: { state: string; children?: ComponentChildren }) {
  return (
    <span class={`badge ${tones[state] ?? 'calm'}`}>
      <i aria-hidden="true" />
      {children ?? state}
    </span>
  )
}

export function Tag({ children }: { children: ComponentChildren }) {
  return <span class="tag">{children}</span>
}
