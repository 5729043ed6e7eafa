/** One step of a template, as a Dockerfile asks for it. */
export type DockerStep = {
  type: 'RUN' | 'COPY' | 'ENV' | 'WORKDIR' | 'USER'
  args: string[]
  /** The line of the step's instruction. */
  line: number
  /** Which files of the folder a COPY takes, as a path or a pattern. */
  source?: string
}
