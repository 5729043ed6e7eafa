/**
 * The builder port: makes a template from an image or another template, step by step. Knows no names or tags.
 */
import { AppError, type ErrorCode } from '../../lib/app-error.ts'
import type { RegistryCredentials } from '../ports/images.ts'
import type { LogLevel } from '../ports/logs.ts'
import type { BuildStep } from './start-request.ts'
import type { TemplateBuild } from './template.ts'

type BuildSource = { image: string; credentials?: RegistryCredentials } | { build: TemplateBuild }

export type BuildJob = {
  build: TemplateBuild
  /** The team whose cache and uploaded files are used. */
  teamID: string
  source: BuildSource
  steps: BuildStep[]
  startCmd: string | null
  readyCmd: string | null
  /** True: do not use the cache, not even for the base. */
  force: boolean
}

export type BuildResult = Pick<
  TemplateBuild,
  | 'rootFolder'
  | 'layers'
  | 'snapshot'
  | 'envVars'
  | 'defaultUser'
  | 'defaultWorkdir'
  | 'startCmd'
  | 'readyCmd'
  | 'serviceContext'
  | 'gpuCount'
>

/** `step` is `base`, `finalize`, or the number of the step, from 1 on. */
export type BuildLine = { level: LogLevel; message: string; step: string | null }

export interface Builder {
  /**
   * Rejects with a `BuildFailure` or with the signal's reason, and leaves nothing behind but the cache. The
   * snapshot and layers of the result are held only until `onResult` has resolved: a row must own them by
   * then.
   */
  run(
    job: BuildJob,
    log: (line: BuildLine) => void,
    signal: AbortSignal,
    onResult: (result: BuildResult) => Promise<void>,
  ): Promise<void>
}

/** The message is for the client; `step` says where in its template the failure happened. */
export class BuildFailure extends AppError {
  readonly step: string

  constructor(step: string, message: string, options: { cause?: unknown; code?: ErrorCode } = {}) {
    super(options.code ?? 'unprocessable', message, { cause: options.cause })
    this.step = step
  }
}

/** Files that clients upload for COPY, by team and hash. */
export interface BuildFiles {
  has(teamID: string, hash: string): Promise<boolean>
  /**
   * Stores the whole body or nothing. Rejects with `payload_too_large`. `signal` aborts when the client has
   * disconnected.
   */
  write(
    teamID: string,
    hash: string,
    body: AsyncIterable<Uint8Array>,
    maxBytes: number,
    signal?: AbortSignal,
  ): Promise<void>
  /** Undefined if there are no such files. */
  open(teamID: string, hash: string): Promise<import('node:stream').Readable | undefined>
  list(): Promise<UploadedFiles[]>
  /** False if the files were used since they were listed, or no longer exist. */
  remove(files: UploadedFiles): boolean
}

/** `usedAt` is when the files were last written or asked for. */
export type UploadedFiles = { teamID: string; hash: string; bytes: number; usedAt: number }
