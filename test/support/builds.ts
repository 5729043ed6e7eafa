/** The life of builds over the domain's fixture: what builds is a knob. */

import type { Builder, BuildJob, BuildResult } from '../../src/core/template/builder.ts'
import { parseTemplateReference } from '../../src/core/template/reference.ts'
import type { StartRequest } from '../../src/core/template/start-request.ts'
import { openFixture, until } from './domain.ts'

export const sizes = { cpuCount: 4, memoryMB: 256, diskMB: 2048 }
export const plain: StartRequest = {
  from: { image: 'debian:12' },
  steps: [],
  startCmd: null,
  readyCmd: null,
  force: false,
}
export const built: BuildResult = {
  rootFolder: null,
  layers: ['sha256:a'],
  snapshot: { name: 's', memory: true, sandboxID: 'i1' },
  envVars: { A: '1' },
  defaultUser: 'me',
  defaultWorkdir: '/app',
  startCmd: 'serve',
  readyCmd: 'ready',
  serviceContext: null,
}

export async function openBuilds() {
  const jobs: BuildJob[] = []
  const signals: AbortSignal[] = []
  type Run = (...given: Parameters<Builder['run']>) => Promise<BuildResult>
  const knobs: { runs: Run; freeBytes: number } = { runs: async () => built, freeBytes: 1e12 }
  const builder: Builder = {
    async run(job, log, signal, onResult) {
      jobs.push(job)
      signals.push(signal)
      await onResult(await knobs.runs(job, log, signal, onResult))
    },
  }
  const ports = { createBuilder: () => builder, freeBytes: async () => knobs.freeBytes }
  const fixture = await openFixture({ ports })
  const { builds, logs, stores, team } = fixture
  const request = (name: string, tags: string[] = ['default'], of = team) =>
    builds.request(of, parseTemplateReference(name), tags, sizes)
  const statusOf = async (buildID: string) => (await stores.templates.findBuild(buildID))?.status
  return {
    fixture,
    builds,
    jobs,
    signals,
    knobs,
    request,
    statusOf,
    logs,
    /** Requested and started. */
    begin: async (name: string, changes: Partial<StartRequest> = {}) => {
      const { template, build } = await request(name)
      await builds.start(team, template.templateID, build.buildID, { ...plain, ...changes })
      return { templateID: template.templateID, buildID: build.buildID }
    },
    ended: (buildID: string) =>
      until(async () => !['waiting', 'building'].includes((await statusOf(buildID))!)),
    [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose](),
  }
}

/** Until it is called off. */
export const forever = (_job: BuildJob, _log: unknown, signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
