/** How long each step of a build took, read from its log: a step lasts from its first entry to the first of the next. */
import type { BuildLogEntry } from '../../contract/rest/template.ts'

type StepTime = { step: string; title: string; startedAt: number; ms: number }

const maxTitle = 160

export function stepsOf(entries: readonly BuildLogEntry[], endedAt: number): StepTime[] {
  const steps: StepTime[] = []
  for (const { step, timestamp, message } of entries) {
    const last = steps.at(-1)
    if (step === undefined || last?.step === step) continue
    if (steps.some((known) => known.step === step)) continue
    steps.push({ step, title: message.slice(0, maxTitle), startedAt: Date.parse(timestamp), ms: 0 })
  }
  return steps.map((step, at) => ({
    ...step,
    ms: Math.max(0, (steps[at + 1]?.startedAt ?? endedAt) - step.startedAt),
  }))
}
