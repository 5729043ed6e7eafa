/** Shows how far a long step is: a bar on a terminal, plain lines elsewhere. */
import { systemClock } from '../../lib/clock.ts'

/** `share` runs from 0 to 1 and never goes back on the screen; `detail` says what is being done now. */
export type Advance = (share: number, detail?: string) => void

export interface Progress {
  /** Runs `work` as one step with a title; a failure ends the step and is thrown on. */
  step<T>(title: string, work: (advance: Advance) => Promise<T>): Promise<T>
  note(line: string): void
}

type Screen = { isTTY?: boolean; columns?: number; write(text: string): unknown }

const barWidth = 24
/** Between two plain lines of one step. */
const quietMs = 5000
const redrawMs = 100

export function createProgress(screen: Screen, now: () => number = systemClock.now): Progress {
  return {
    note: (line) => screen.write(`${line}\n`),
    async step(title, work) {
      const startedAt = now()
      const shown = screen.isTTY ? bar(screen, title, now) : lines(screen, title, now)
      let share = 0
      try {
        const result = await work((next, detail) => {
          share = Math.max(share, Math.min(1, next))
          shown.advance(share, detail)
        })
        shown.end(`done in ${seconds(now() - startedAt)}`)
        return result
      } catch (error) {
        shown.end(`failed after ${seconds(now() - startedAt)}`)
        throw error
      }
    },
  }
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`
const percent = (share: number): string => `${Math.floor(share * 100)} %`

function bar(screen: Screen, title: string, now: () => number) {
  const startedAt = now()
  let share = 0
  let detail = ''
  const draw = () => {
    const filled = Math.round(share * barWidth)
    const picture = '█'.repeat(filled) + '░'.repeat(barWidth - filled)
    const text = `${title} ${picture} ${percent(share).padStart(5)} ${seconds(now() - startedAt)} ${detail}`
    screen.write(`\r\x1b[K${text.slice(0, (screen.columns ?? 80) - 1)}`)
  }
  draw()
  // The seconds go on while a step says nothing, so that one can tell slow from stuck.
  const timer = setInterval(draw, 1000)
  timer.unref()
  let drawnAt = now()
  return {
    advance(next: number, what?: string) {
      share = next
      detail = what ?? detail
      if (now() - drawnAt < redrawMs) return
      drawnAt = now()
      draw()
    },
    end(verdict: string) {
      clearInterval(timer)
      screen.write(`\r\x1b[K${title}: ${verdict}\n`)
    },
  }
}

function lines(screen: Screen, title: string, now: () => number) {
  screen.write(`${title} …\n`)
  let saidAt = now()
  return {
    advance(share: number, detail?: string) {
      if (now() - saidAt < quietMs) return
      saidAt = now()
      screen.write(`  ${percent(share)}${detail ? ` ${detail}` : ''}\n`)
    },
    end: (verdict: string) => screen.write(`${title}: ${verdict}\n`),
  }
}

/** Cuts what a program prints into lines. */
export function eachLine(handle: (line: string) => void): (chunk: Buffer) => void {
  let rest = ''
  return (chunk) => {
    const parts = (rest + chunk.toString()).split(/\r?\n/)
    rest = parts.pop() ?? ''
    for (const line of parts) handle(line)
  }
}
