/** The life of builds over the domain's fixture: what builds is a knob. */
import { join } from 'node:path'
import { BuildLog } from '../../src/core/template/build-log.ts'
import type { Builder, BuildJob, BuildResult } from '../../src/core/template/builder.ts'
import { Building, type StartRequest } from '../../src/core/template/building.ts'
import { parseTemplateReference } from '../../src/core/template/reference.ts'
import { silentLog } from '../../src/lib/log.ts'
import { LogFiles } from '../../src/logs/log-files.ts'
import { type Fixture, openFixture, until } from './domain.ts'

export const sizes = { cpuCount: 4, memoryMB: 256, diskMB: 2048 }
export const plain: StartRequest = {
  ...{ from: { image: 'debian:12' }, steps: [], startCmd: null, readyCmd: null, force: false },
}
export const built: BuildResult = {
  ...{ rootFolder: null, layers: ['sha256:a'], snapshot: { name: 's', memory: true, sandboxID: 'i1' } },
  ...{ envVars: { A: '1' }, defaultUser: 'me', defaultWorkdir: '/app', startCmd: 'serve', readyCmd: 'ready' },
}

export function buildingOver(fixture: Fixture) {
  const { stores, catalog, clock, team, folder } = fixture
  const jobs: BuildJob[] = []
  type Run = (...given: Parameters<Builder['run']>) => Promise<BuildResult>
  const knobs: { runs: Run; requireRoom: () => Promise<void> } = {
    runs: async () => built,
    requireRoom: async () => {},
  }
  const builder: Builder = {
    async run(job, log, signal, settle) {
      jobs.push(job)
      await settle(await knobs.runs(job, log, signal, settle))
    },
  }
  const logs = new LogFiles({ folder: join(folder, 'logs'), maxBytesPerSandbox: 1e6, maxBytesTotal: 1e7 })
  const building = new Building({
    ...{ templates: stores.templates, catalog, builder, clock, envdVersion: '0.6.13', log: silentLog },
    requireRoom: () => knobs.requireRoom(),
    buildLog: new BuildLog({ logs, maxBytes: 5e5, clock, log: silentLog }),
  })
  const request = (name: string, tags: string[] = ['default'], of = team) =>
    building.request(of, parseTemplateReference(name), tags, sizes)
  const statusOf = async (buildID: string) => (await stores.templates.findBuild(buildID))?.status
  return {
    ...{ building, jobs, knobs, request, statusOf, logs },
    /** Requested and started. */
    begin: async (name: string, changes: Partial<StartRequest> = {}) => {
      const { template, build } = await request(name)
      await building.start(team, template.templateID, build.buildID, { ...plain, ...changes })
      return { templateID: template.templateID, buildID: build.buildID }
    },
    ended: (buildID: string) =>
      until(async () => !['waiting', 'building'].includes((await statusOf(buildID))!)),
  }
}

export async function openBuilding() {
  const fixture = await openFixture()
  return {
    ...{ fixture, ...buildingOver(fixture) },
    [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose](),
  }
}

/** Until it is called off. */
export const forever = (_job: BuildJob, _log: unknown, signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
