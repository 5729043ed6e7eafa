/** What a person enters to make a template, as the two requests that make it. */
import type { NewTemplate, StartBuild } from '../../contract/rest/template.ts'
import { parseDockerfile, waitForStart } from '../../lib/dockerfile/parse.ts'

export type TemplateForm = {
  name: string
  source: 'image' | 'dockerfile'
  image: string
  /** Of the image's registry; both empty: everybody may pull it. */
  user: string
  password: string
  dockerfile: string
  /** Empty: the server's usual size, as for the memory. */
  cpuCount: string
  memoryMB: string
  startCmd: string
  readyCmd: string
}

export const emptyTemplateForm: TemplateForm = {
  name: '',
  source: 'image',
  image: '',
  user: '',
  password: '',
  dockerfile: '',
  cpuCount: '',
  memoryMB: '',
  startCmd: '',
  readyCmd: '',
}

/** Throws with all that is wrong, a line each; of the Dockerfile, it is the first line that cannot be carried out. */
export function templateRequests(form: TemplateForm): { request: NewTemplate; start: StartBuild } {
  const problems = [...nameProblems(form), ...sizeProblems(form)]
  const made = withProblem(problems, () =>
    form.source === 'image' ? fromImage(form) : fromDockerfile(form.dockerfile),
  )
  if (!made || problems.length > 0) throw new Error(problems.join('\n'))
  const { gpuCount, ...source } = made
  const startCmd = form.startCmd.trim() || source.startCmd
  const readyCmd = form.readyCmd.trim() || (startCmd ? waitForStart : null)
  return {
    request: {
      name: form.name.trim(),
      ...(form.cpuCount !== '' && { cpuCount: Number(form.cpuCount) }),
      ...(form.memoryMB !== '' && { memoryMB: Number(form.memoryMB) }),
      ...(gpuCount !== undefined && { gpuCount }),
    },
    start: { ...source, startCmd, readyCmd },
  }
}

/** As the server has them; it also knows the limits. */
const nameForm = /^(?:[a-z0-9_-]+\/)?[a-z0-9_-]+(?::[a-z0-9_.-]+)?$/i

const nameProblems = ({ name }: TemplateForm): string[] =>
  nameForm.test(name.trim())
    ? []
    : [`'${name.trim()}' is not a name: use lowercase letters, digits, - and _, and no spaces.`]

function sizeProblems({ cpuCount, memoryMB }: TemplateForm): string[] {
  const [cpu, memory] = [Number(cpuCount), Number(memoryMB)]
  return [
    ...(cpuCount !== '' && cpu !== 1 && cpu % 2 !== 0 ? ['CPU count must be 1 or an even number.'] : []),
    ...(memoryMB !== '' && memory % 2 !== 0 ? ['Memory must be an even number of MiB.'] : []),
  ]
}

function withProblem<T>(problems: string[], make: () => T): T | undefined {
  try {
    return make()
  } catch (error) {
    problems.push((error as Error).message)
    return undefined
  }
}

type TemplateSource = StartBuild & { startCmd: string | null; gpuCount?: number }

function fromImage({ image, user, password }: TemplateForm): TemplateSource {
  if (user === '' && password !== '')
    throw new Error(
      'The password of the registry needs a user name. For a token, the registry tells which one.',
    )
  const registry = { type: 'registry' as const, username: user, password }
  return {
    fromImage: image.trim(),
    steps: [],
    startCmd: null,
    ...(user !== '' && { fromImageRegistry: registry }),
  }
}

/** The same steps as `warren template build` sends, without files. */
function fromDockerfile(text: string): TemplateSource {
  const { image, steps, startCmd, gpuCount } = parseDockerfile(text)
  const copy = steps.find(({ source }) => source !== undefined)
  if (copy) {
    throw new Error(
      `Dockerfile, line ${copy.line}: COPY and ADD need files, which a pasted Dockerfile does not have. ` +
        'Build it on your machine with `warren template build`, or write the file with a heredoc (COPY <<EOF).',
    )
  }
  return {
    fromImage: image,
    steps: steps.map(({ type, args }) => ({ type, args })),
    startCmd,
    ...(gpuCount !== undefined && { gpuCount }),
  }
}
