/** The traced operations of the domain and of its ports. */
import type { AgentPort } from '../../core/ports/agent.ts'
import type { CanFreeze, CanLimitEgress, CanSnapshot, Driver, SandboxSpec } from '../../core/ports/driver.ts'
import type { Admission } from '../../core/sandbox/capacity/admission.ts'
import type { SandboxService } from '../../core/sandbox/service.ts'
import type { Team } from '../../core/team/team.ts'
import type { Builder, BuildJob } from '../../core/template/builder.ts'
import { methodNames, type TraceAttributes, type Tracer, traced } from '../../lib/tracer.ts'
import type { Stores } from '../../store/stores.ts'

type AnyDriver = Driver & Partial<CanFreeze & CanSnapshot & CanLimitEgress>

export function tracedDriver(driver: Driver, tracer: Tracer): Driver {
  return traced<AnyDriver>(
    driver,
    'driver',
    tracer,
    [
      ...(['prepare', 'start', 'adopt', 'recover', 'stop', 'stats', 'list', 'freeze', 'thaw'] as const),
      ...(['takeSnapshot', 'findSnapshot', 'removeSnapshot', 'limitEgress'] as const),
    ],
    (first?: Partial<SandboxSpec>): TraceAttributes =>
      first?.sandboxID ? { 'warren.sandbox': first.sandboxID } : {},
  )
}

export function tracedStores(stores: Stores, tracer: Tracer): Stores {
  const entries = Object.entries(stores).map(([name, store]) => {
    if (typeof store === 'function') return [name, store]
    return [name, traced(store, `store.${name}`, tracer, methodNames(store))]
  })
  return Object.fromEntries(entries) as Stores
}

/** Excludes following a log, which lasts as long as its sandbox. */
export function tracedAgent(agent: AgentPort, tracer: Tracer): AgentPort {
  return traced(agent, 'agent', tracer, ['initialize', 'isHealthy', 'findOtherNetworks', 'run', 'writeFile'])
}

export function tracedAdmission(admission: Admission, tracer: Tracer): Admission {
  return traced(admission, 'admission', tracer, ['enter'])
}

/** The verbs that clients call; their parts appear as operations of the ports. */
export function tracedSandboxes(service: SandboxService, tracer: Tracer): SandboxService {
  return traced(
    service,
    'sandbox',
    tracer,
    ['create', 'connect', 'resume', 'pause', 'fork', 'snapshot', 'kill'],
    ({ teamID }: Team, what: string | { template: string }) => ({
      'warren.team': teamID,
      ...(typeof what === 'string' ? { 'warren.sandbox': what } : { 'warren.template': what.template }),
    }),
  )
}

export function tracedBuilder(builder: Builder, tracer: Tracer): Builder {
  const run: Builder['run'] = (job, ...rest) =>
    tracer.trace('template.build', attributesOfBuild(job), () => builder.run(job, ...rest))
  return { run }
}

const attributesOfBuild = ({ build, steps }: BuildJob) => ({
  'warren.template': build.templateID,
  'warren.build': build.buildID,
  'warren.steps': steps.length,
})
