/** The builder over the domain's fixture: images, agent and sandboxes that are not real, uploads and cache that are. */
import { Readable } from 'node:stream'
import type { Images, PulledImage, PullOptions } from '../../src/core/ports/images.ts'
import type { BuildJob, BuildLine, BuildResult } from '../../src/core/template/builder.ts'
import type { BuildStep } from '../../src/core/template/start-request.ts'
import type { TemplateBuild } from '../../src/core/template/template.ts'
import { tarOf } from '../../src/images/archive-fixture.ts'
import { StepBuilder } from '../../src/images/phases/builder.ts'
import { newUUID } from '../../src/lib/ids.ts'
import { openFixture } from './domain.ts'

export const baseBuildID = '11111111-1111-4111-8111-111111111111'
/** The hash of uploaded files. */
export const someHash = 'ab'.repeat(32)

export function step(type: BuildStep['type'], args: string[], more: Partial<BuildStep> = {}): BuildStep {
  return { type, args, filesHash: null, force: false, ...more }
}

export const runs = (...commands: string[]): BuildStep[] => commands.map((command) => step('RUN', [command]))

export async function openBuilder(options: { snapshotMemory?: boolean } = {}) {
  const pulled: PulledImage = {
    digest: 'sha256:one',
    layers: ['sha256:low', 'sha256:high'],
    config: { env: { PATH: '/image/bin' }, user: 'nobody', workdir: '/srv' },
  }
  const images: Images & {
    pulls: [string, PullOptions][]
    gives: () => Promise<PulledImage>
    /** Layers that are on the machine, and by how many each is held. */
    here: Set<string>
    protections: Map<string, number>
  } = {
    pulls: [],
    here: new Set(),
    protections: new Map(),
    gives: async () => pulled,
    async pull(reference, options) {
      images.pulls.push([reference, options])
      options.onProgress('1 layer is here')
      const given = await images.gives()
      for (const layer of given.layers) images.here.add(layer)
      return given
    },
    digestOf: async () => (await images.gives()).digest,
    layerFolders: (layers) => [...layers],
    missing: (layers) => layers.filter((layer) => !images.here.has(layer)),
    protect(layers) {
      const add = (by: number) => {
        for (const layer of layers) images.protections.set(layer, (images.protections.get(layer) ?? 0) + by)
      }
      add(1)
      return () => add(-1)
    },
    async prune(used, { dryRun }) {
      const needed = new Set(used.layers)
      const gone = [...images.here].filter((layer) => !needed.has(layer) && !images.protections.get(layer))
      if (!dryRun) for (const layer of gone) images.here.delete(layer)
      return { count: gone.length, bytes: gone.length * 1000 }
    },
  }
  const fixture = await openFixture({ ...options, ports: { images } })
  const { stores, buildSandboxes, snapshots, agent, clock, team, buildFiles: files } = fixture
  const baseBuild = async () => (await stores.templates.findBuild(baseBuildID))!
  const builder = new StepBuilder({
    images,
    buildSandboxes,
    snapshots,
    files,
    agent,
    clock,
    baseBuild,
    freeDiskSpace: async () => {},
    cache: stores.buildCache,
  })
  const lines: BuildLine[] = []
  const jobOf = async (changes: Partial<BuildJob>): Promise<BuildJob> => {
    const base = await baseBuild()
    const build: TemplateBuild = { ...base, buildID: newUUID(), templateID: 'mine', rootFolder: null }
    return {
      build,
      teamID: team.teamID,
      source: { build: base },
      steps: [],
      startCmd: null,
      readyCmd: null,
      force: false,
      ...changes,
    }
  }
  return {
    fixture,
    files,
    images,
    pulled,
    builder,
    lines,
    baseBuild,
    /** With the lines that it told. */
    build: async (changes: Partial<BuildJob> = {}, signal = new AbortController().signal) => {
      const from = lines.length
      const settled = Promise.withResolvers<BuildResult>()
      const log = (line: BuildLine) => lines.push(line)
      await builder.run(await jobOf(changes), log, signal, async (result) => settled.resolve(result))
      const result = await settled.promise
      return { result, lines: lines.slice(from).map(({ message }) => message) }
    },
    /** Stores an archive with one file, and gives its bytes as text. */
    upload: async (content: string, hash = someHash): Promise<string> => {
      const archive = tarOf([{ name: 'file', content }])
      await files.write(team.teamID, hash, Readable.from([archive]), 10_000)
      return archive.toString()
    },
    /** What came of a build as a row, so that other builds can begin with it. */
    asTemplate: async (result: BuildResult): Promise<TemplateBuild> => ({
      ...(await baseBuild()),
      buildID: newUUID(),
      ...result,
    }),
    [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose](),
  }
}
