/** One step of a template, as a Dockerfile asks for it. */
export type DockerStep = {
  type: 'RUN' | 'COPY' | 'ENV' | 'WORKDIR' | 'USER'
  args: string[]
  /** Of the instruction that it came from. */
  line: number
  /** Of COPY: which files of the folder, as a path or a pattern. */
  source?: string
}
