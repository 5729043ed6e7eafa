/** The operator's report on this server: its state, and the doctor's findings. */
import type { ApiParts } from '../../api/context.ts'
import type { Uploader } from '../../core/object-storage/uploader.ts'
import type { WarmPool } from '../../core/sandbox/warm-pool/warm-pool.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Stores } from '../../store/stores.ts'
import type { Config } from '../config/config.ts'
import { type IsolationName, isolations } from '../isolation/isolations.ts'
import { version } from '../project/version.ts'
import type { RecentCreates } from '../telemetry/recent-creates.ts'
import type { RecentProblems } from './recent-problems.ts'

type MachineReportParts = {
  config: Config
  isolation: IsolationName
  stores: Pick<Stores, 'sandboxes'>
  warm: Pick<WarmPool, 'count'>
  creates: Pick<RecentCreates, 'read'>
  problems: Pick<RecentProblems, 'list'>
  /** Undefined without an object store. */
  uploader: Pick<Uploader, 'waiting'> | undefined
  clock: Clock
}

/** The doctor tries things on the machine: more often would be a load, and tell nothing new. */
const examineEveryMs = 60_000

const dateTime = (ms: number) => new Date(ms).toISOString()

export function createMachineReport(
  parts: MachineReportParts,
): Pick<ApiParts, 'describeMachine' | 'examineMachine'> {
  const { config, isolation, stores, warm, creates, problems, uploader, clock } = parts
  const startedAt = dateTime(clock.now())
  let examined: { at: number; report: ReturnType<ApiParts['examineMachine']> } | undefined
  return {
    async describeMachine() {
      const counts = await stores.sandboxes.countByState()
      const waiting = await uploader?.waiting()
      return {
        version,
        startedAt,
        isolation,
        isolationLabel: isolations[isolation].label,
        warmPool: warm.count(),
        creates: creates.read(),
        sandboxes: Object.fromEntries(counts.map(({ state, count }) => [state, count])),
        ...(waiting && {
          objectStore: {
            waitingTemplates: waiting.builds,
            waitingSandboxes: waiting.sandboxes,
            onlyHere: waiting.onlyHere,
          },
        }),
        problems: problems.list().map((problem) => ({ ...problem, at: dateTime(problem.at) })),
      }
    },
    examineMachine() {
      const at = clock.now()
      if (!examined || at - examined.at >= examineEveryMs) examined = { at, report: examine(config, at) }
      return examined.report
    },
  }
}

async function examine(config: Config, at: number): ReturnType<ApiParts['examineMachine']> {
  const { allChecks, examine: look } = await import('../doctor/doctor.ts')
  const checks = await look(allChecks, config)
  return { examinedAt: dateTime(at), canRun: checks.every(({ status }) => status !== 'fail'), checks }
}
