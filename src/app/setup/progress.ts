/** Shows how far long steps are, of which several may run at once: a bar for each on a terminal, plain lines elsewhere. */
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
  const show = screen.isTTY ? new Bars(screen, now) : new Lines(screen, now)
  return {
    note: (line) => show.note(line),
    async step(title, work) {
      const step: Step = { title, startedAt: now(), share: 0, detail: '' }
      show.begin(step)
      try {
        const result = await work((next, detail) => {
          step.share = Math.max(step.share, Math.min(1, next))
          step.detail = detail ?? step.detail
          show.advance(step)
        })
        show.end(step, `done in ${seconds(now() - step.startedAt)}`)
        return result
      } catch (error) {
        show.end(step, `failed after ${seconds(now() - step.startedAt)}`)
        throw error
      }
    },
  }
}

type Step = { title: string; startedAt: number; share: number; detail: string }

interface Shown {
  begin(step: Step): void
  advance(step: Step): void
  end(step: Step, verdict: string): void
  note(line: string): void
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`
const percent = (share: number): string => `${Math.floor(share * 100)} %`

/** One line for each step that runs, drawn again below everything that was said. */
class Bars implements Shown {
  readonly #screen: Screen
  readonly #now: () => number
  readonly #steps: Step[] = []
  /** Lines of steps on the screen; the cursor is in the last one. */
  #drawn = 0
  #drawnAt = 0
  #timer: NodeJS.Timeout | undefined

  constructor(screen: Screen, now: () => number) {
    this.#screen = screen
    this.#now = now
  }

  begin(step: Step): void {
    this.#steps.push(step)
    this.#draw()
    // The seconds go on while a step says nothing, so that one can tell slow from stuck.
    this.#timer ??= setInterval(() => this.#draw(), 1000).unref()
  }

  advance(): void {
    if (this.#now() - this.#drawnAt >= redrawMs) this.#draw()
  }

  end(step: Step, verdict: string): void {
    this.#steps.splice(this.#steps.indexOf(step), 1)
    if (this.#steps.length === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    this.note(`${step.title}: ${verdict}`)
  }

  note(line: string): void {
    this.#draw(`${line}\n`)
  }

  #draw(said = ''): void {
    this.#drawnAt = this.#now()
    const up = this.#drawn > 1 ? `\x1b[${this.#drawn - 1}A` : ''
    const erase = this.#drawn > 0 ? `${up}\r\x1b[J` : ''
    this.#screen.write(`${erase}${said}${this.#steps.map((step) => this.#line(step)).join('\n')}`)
    this.#drawn = this.#steps.length
  }

  #line({ title, startedAt, share, detail }: Step): string {
    const filled = Math.round(share * barWidth)
    const picture = '█'.repeat(filled) + '░'.repeat(barWidth - filled)
    const text = `${title} ${picture} ${percent(share).padStart(5)} ${seconds(this.#now() - startedAt)} ${detail}`
    return text.slice(0, (this.#screen.columns ?? 80) - 1)
  }
}

class Lines implements Shown {
  readonly #screen: Screen
  readonly #now: () => number
  readonly #saidAt = new Map<Step, number>()

  constructor(screen: Screen, now: () => number) {
    this.#screen = screen
    this.#now = now
  }

  begin(step: Step): void {
    this.#saidAt.set(step, step.startedAt)
    this.note(`${step.title} …`)
  }

  advance(step: Step): void {
    if (this.#now() - (this.#saidAt.get(step) ?? 0) < quietMs) return
    this.#saidAt.set(step, this.#now())
    const title = this.#saidAt.size > 1 ? `${step.title}: ` : ''
    this.note(`  ${title}${percent(step.share)}${step.detail ? ` ${step.detail}` : ''}`)
  }

  end(step: Step, verdict: string): void {
    this.#saidAt.delete(step)
    this.note(`${step.title}: ${verdict}`)
  }

  note(line: string): void {
    this.#screen.write(`${line}\n`)
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
