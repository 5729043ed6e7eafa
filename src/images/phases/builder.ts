/**
 * Builds templates in three phases: the base (an image or another template), the steps, and the service. Each
 * step has a key, is looked up in the team's cache, and runs in a real sandbox only if it is not there.
 */
import { createHash } from 'node:crypto'
import type { CommandOutput } from '../../core/ports/agent.ts'
import type { Images } from '../../core/ports/images.ts'
import type { BuildSandboxes } from '../../core/sandbox/builds/build-sandboxes.ts'
import { type StartSnapshotParts, takeStartSnapshot } from '../../core/sandbox/builds/start-snapshot.ts'
import { startSnapshotName } from '../../core/sandbox/snapshots/snapshot-names.ts'
import type { SnapshotStore } from '../../core/sandbox/snapshots/snapshot-store.ts'
import type { BuildCacheStore } from '../../core/template/build-cache-store.ts'
import {
  type Builder,
  BuildFailure,
  type BuildFiles,
  type BuildJob,
  type BuildLine,
  type BuildResult,
} from '../../core/template/builder.ts'
import { gpuCountOf } from '../../core/template/gpu-count.ts'
import type { BuildStep } from '../../core/template/start-request.ts'
import type { TemplateBuild } from '../../core/template/template.ts'
import { AppError, errorText } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { explainFailure, OutputTail } from './explain-failure.ts'
import { linesOf } from './output-lines.ts'
import { finish, modesChanged, provision, provisionVersion, trustStoreChanged } from './scripts.ts'
import { BuildSite, type Stage } from './stage.ts'
import { runStep } from './steps.ts'

type BuilderParts = {
  images: Images
  buildSandboxes: BuildSandboxes
  snapshots: SnapshotStore
  cache: BuildCacheStore
  files: BuildFiles
  agent: StartSnapshotParts['agent']
  clock: Clock
  /** Frees disk space, as far as there is something to prune. */
  freeDiskSpace: () => Promise<unknown>
  /** The build that the image names of our own base template refer to. */
  baseBuild: () => Promise<TemplateBuild>
}

type Say = (message: string, level?: BuildLine['level']) => void
/** What a phase tells while it runs: lines for the log, and lines of a program's output to remember. */
type StepOutput = { say: Say; tail: OutputTail }

const ownBase = /^(?:docker\.io\/)?e2bdev\/base(?::[\w.-]+)?$/

export class StepBuilder implements Builder {
  readonly #parts: BuilderParts

  constructor(parts: BuilderParts) {
    this.#parts = parts
  }

  async run(
    job: BuildJob,
    log: (line: BuildLine) => void,
    signal: AbortSignal,
    saveResult: (result: BuildResult) => Promise<void>,
  ): Promise<void> {
    const tail = new OutputTail()
    const outputOf = (step: string): StepOutput => {
      tail.clear()
      return { say: (message, level = 'info') => log({ level, message, step }), tail }
    }
    const failIn = (step: string) => (error: unknown) => {
      signal.throwIfAborted()
      const where = titleOf(step, job.steps.length)
      const code = codeOf(error)
      throw new BuildFailure(step, explainFailure(errorText(error), where, tail.lines), {
        cause: error,
        ...(code && { code }),
      })
    }
    const site = await this.#base(job, outputOf('base'), signal).catch(failIn('base'))
    try {
      let force = job.force
      for (const [index, step] of job.steps.entries()) {
        const number = String(index + 1)
        force ||= step.force
        await this.#step(job, site, step, number, force, outputOf(number), signal).catch(failIn(number))
      }
      const finalized = this.#finalize({ ...job, force }, site, outputOf('finalize'), signal)
      await saveResult(await finalized.catch(failIn('finalize')))
    } finally {
      await site.close()
    }
  }

  async #base(job: BuildJob, { say, tail }: StepOutput, signal: AbortSignal): Promise<BuildSite> {
    const { source } = job
    if ('build' in source) {
      say(`[base] FROM template build ${source.build.buildID}`)
      return this.#on(source.build, job, signal)
    }
    if (ownBase.test(source.image)) {
      say(`[base] FROM ${source.image}`)
      return this.#on(await this.#parts.baseBuild(), job, signal)
    }
    const { images, cache, clock } = this.#parts
    const { credentials } = source
    await this.#parts.freeDiskSpace()
    const pulled = await images.pull(source.image, {
      owner: job.teamID,
      ...(credentials && { credentials }),
      onProgress: (line) => say(`[base] ${line}`),
      signal,
    })
    const key = keyOf(['base', String(provisionVersion), pulled.digest])
    const { env: envVars } = pulled.config
    const empty = { key: '', snapshotName: null, layers: pulled.layers, rootFolder: null, envVars }
    const site = new BuildSite(this.#parts, job.build, { ...empty, user: 'root', workdir: '/' }, signal)
    try {
      const cached = job.force ? undefined : await cache.find(job.teamID, key, clock.now())
      if (cached && (await site.adopt(cached))) {
        say(`CACHED [base] FROM ${source.image} [${key.slice(0, 12)}]`)
        return site
      }
      say(`[base] FROM ${source.image} [${key.slice(0, 12)}]`)
      await this.#provision(site, { say, tail }, signal)
      say('[base] DEFAULT USER user')
      site.change({ user: 'user', workdir: '/home/user' })
      await cache.put(job.teamID, await site.complete(key), clock.now())
      return site
    } catch (error) {
      await site.close()
      throw error
    }
  }

  /** Starts from a template's build. The template may have been deleted since the build was requested. */
  async #on(build: TemplateBuild, job: BuildJob, signal: AbortSignal): Promise<BuildSite> {
    const site = new BuildSite(this.#parts, job.build, stageOf(build), signal)
    if (await site.adopt(site.stage)) return site
    await site.close()
    throw new BuildFailure('base', 'the template it starts from does not exist any more; choose another one')
  }

  async #provision(site: BuildSite, { say, tail }: StepOutput, signal: AbortSignal): Promise<void> {
    const sandbox = await site.sandbox()
    const output = linesOf((_, line) => {
      say(`[base] ${line}`, 'debug')
      tail.add(line)
    })
    const { envVars } = site.stage
    const envs = { ...envVars, ...(envVars.PATH && { WARREN_PATH: envVars.PATH }) }
    const command = { command: provision, shell: 'sh', user: 'root', cwd: '/', envs } as const
    const { exitCode, status } = await sandbox.run(command, { onOutput: output.add, signal })
    output.end()
    if (exitCode !== 0) throw new BuildFailure('base', `the image could not be prepared: ${status}`)
  }

  async #step(
    job: BuildJob,
    site: BuildSite,
    step: BuildStep,
    number: string,
    force: boolean,
    { say, tail }: StepOutput,
    signal: AbortSignal,
  ): Promise<void> {
    const { cache, files, clock } = this.#parts
    const key = keyOf([site.stage.key, step.type, step.filesHash ?? '', ...step.args])
    const prefix = `[builder ${number}/${job.steps.length}]`
    const title = `${prefix} ${step.type} ${step.args.join(' ')} [${key.slice(0, 12)}]`
    const cached = force ? undefined : await cache.find(job.teamID, key, clock.now())
    if (cached && (await site.adopt(cached))) return say(`CACHED ${title}`)
    say(title)
    await this.#parts.freeDiskSpace()
    const output = linesOf((stream, line) => {
      say(`${prefix} [${stream}]: ${line}`)
      tail.add(line)
    })
    const { teamID } = job
    try {
      await runStep(step, { site, files, teamID, number, onOutput: output.add, signal })
    } finally {
      output.end()
    }
    await cache.put(teamID, await site.complete(key), clock.now())
  }

  /** Opens /usr/local to users, and makes an authority that a step has added trusted in every sandbox. */
  async #finish(job: BuildJob, site: BuildSite, say: Say, signal: AbortSignal): Promise<void> {
    const { cache, clock } = this.#parts
    const key = keyOf([site.stage.key, 'finish'])
    const cached = job.force ? undefined : await cache.find(job.teamID, key, clock.now())
    if (cached && (await site.adopt(cached))) return
    const sandbox = await site.sandbox({ writes: false })
    const output = linesOf((_, line) => say(`[finalize] ${line}`, 'debug'))
    const command = { command: finish, shell: 'sh', user: 'root', cwd: '/', envs: {} } as const
    const { exitCode, status } = await sandbox.run(command, { onOutput: output.add, signal })
    output.end()
    // The stage is kept with what the script has changed.
    if (exitCode !== 0) await site.sandbox()
    if (exitCode === trustStoreChanged) {
      say('[finalize] The authorities that steps added are trusted')
    } else if (exitCode !== 0 && exitCode !== modesChanged) {
      say(`[finalize] The authorities that steps added could not be made trusted: ${status}`, 'warn')
    }
    await cache.put(job.teamID, await site.complete(key), clock.now())
  }

  async #finalize(
    job: BuildJob,
    site: BuildSite,
    { say, tail }: StepOutput,
    signal: AbortSignal,
  ): Promise<BuildResult> {
    say('[finalize] Finalizing template build')
    if (job.steps.some(({ type }) => type === 'RUN' || type === 'COPY')) {
      await this.#finish(job, site, say, signal)
    }
    const service = serviceOf(job)
    const { startCmd, readyCmd } = service
    const finished = await site.finish()
    const gpuCount = gpuCountOf(finished, 'build' in job.source ? job.source.build : undefined)
    const build = { ...finished, ...service, ...(gpuCount > 0 && { gpuCount }) }
    const { rootFolder, layers, envVars, defaultUser, defaultWorkdir } = build
    if (gpuCount > 0) say(`[finalize] GPUs of each sandbox: ${gpuCount}`)
    if (startCmd) say(`Running start command: ${startCmd}`)
    if (startCmd || readyCmd) say(`Waiting for template to be ready: ${readyCmd ?? 'sleep 20'}`)
    const output = linesOf((stream, line) => {
      say(`[start] [${stream}]: ${line}`)
      tail.add(line)
    })
    site.protect(startSnapshotName(build))
    const onOutput = (piece: CommandOutput) => output.add(piece)
    const prepared = await takeStartSnapshot(this.#parts, build, { signal, onOutput }).finally(() =>
      output.end(),
    )
    say('Template is ready')
    const snapshot = prepared ?? build.snapshot
    return { rootFolder, layers, snapshot, envVars, defaultUser, defaultWorkdir, gpuCount, ...service }
  }
}

type Service = Pick<TemplateBuild, 'startCmd' | 'readyCmd' | 'serviceContext'>

/**
 * A build on another template keeps that template's service, in its original context, unless it has its own.
 */
function serviceOf({ source, startCmd, readyCmd }: BuildJob): Service {
  if (startCmd || !('build' in source)) return { startCmd, readyCmd, serviceContext: null }
  const { build } = source
  const context = { user: build.defaultUser, workdir: build.defaultWorkdir, envVars: build.envVars }
  return {
    startCmd: build.startCmd,
    readyCmd: readyCmd || build.readyCmd,
    serviceContext: build.startCmd ? (build.serviceContext ?? context) : null,
  }
}

/** The final stage of another template, for a build that starts from it. */
function stageOf(build: TemplateBuild): Stage {
  const { buildID, snapshot, layers, rootFolder, envVars, defaultUser, defaultWorkdir } = build
  const context = { envVars, user: defaultUser, workdir: defaultWorkdir }
  return {
    key: keyOf(['template', buildID]),
    snapshotName: snapshot?.name ?? null,
    layers,
    rootFolder,
    ...context,
  }
}

/** The lengths distinguish lists that look the same when joined. */
function keyOf(parts: readonly string[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(`${part.length}:${part}`)
  return hash.digest('hex')
}

function titleOf(step: string, count: number): string {
  if (step === 'base') return 'the base of the template'
  return step === 'finalize' ? 'the start of the finished template' : `step ${step} of ${count}`
}

const codeOf = (error: unknown) => (error instanceof AppError ? error.code : undefined)
