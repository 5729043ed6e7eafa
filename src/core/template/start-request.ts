/** The source and steps from which a client wants a build to be made. */
import type { RegistryCredentials } from '../ports/images.ts'

export const stepTypes = ['COPY', 'RUN', 'ENV', 'WORKDIR', 'USER'] as const

export type BuildStep = {
  type: (typeof stepTypes)[number]
  args: string[]
  /** The hash of the uploaded files that a COPY reads. */
  filesHash: string | null
  /** Runs the step and all after it even if they are in the cache. */
  force: boolean
}

export type StartRequest = {
  from: { image: string; credentials?: RegistryCredentials } | { template: string }
  steps: BuildStep[]
  startCmd: string | null
  readyCmd: string | null
  force: boolean
}
