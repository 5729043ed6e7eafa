import { readFile, stat } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import type { BuildStatusAnswer, StartBuild, Template } from '../contract/rest/template.ts'
import { AppError, errorText, isAppError } from '../lib/app-error.ts'
import { DockerfileError } from '../lib/dockerfile/instructions.ts'
import { parseDockerfile, waitForStart } from '../lib/dockerfile/parse.ts'
import type { DockerStep } from '../lib/dockerfile/step.ts'
import type { AdminClient } from './admin-client.ts'
import { memoryOf, namedValues, positiveNumber, UsageError } from './arguments.ts'
import { BuildContext } from './dockerfile/context.ts'
import { followBuild } from './follow-build.ts'
import { asJson, counted, plainLines, table } from './output.ts'
import { type TeamClient, whichServer } from './team-client.ts'
import type { TemplateClient } from './template-client.ts'
import type { Given, VerbTable } from './verbs.ts'

const command = 'warren template'
const largestDockerfile = 1024 * 1024

/** Prints lines while the command runs; `aside` is standard error. */
type Print = (line: string, aside: boolean) => void

export type TemplateCommandParts = {
  connect: () => Promise<TemplateClient>
  connectAdmin: () => Promise<AdminClient>
  connectTeam: () => Promise<Pick<TeamClient, 'listTemplates' | 'findAlias' | 'deleteTemplate'>>
  print: Print
}

export const templateVerbs: VerbTable<TemplateCommandParts> = {
  name: 'template',
  does: 'templates: of a Dockerfile, or built-in ones',
  notes: whichServer,
  verbs: {
    build: {
      does: 'Makes a template of the Dockerfile in DIR.',
      about: 'FROM e2bdev/base begins with the template base.',
      words: ['DIR'],
      options: {
        name: "the template's name, or NAME:TAG; else the folder's",
        cpu: "CPUs of its sandboxes, 1 or an even number (default: the server's)",
        memory: "memory of its sandboxes in MiB, or with a unit such as 4g (default: the server's)",
        gpus: 'GPUs of its sandboxes (default: none)',
        'start-cmd': "instead of ENTRYPOINT and CMD; '' for none",
        'ready-cmd':
          'the readiness check, which exits with 0 when the start command is ready; without it, the build waits 20 seconds',
        tag: 'a tag for this build',
        'build-arg': 'the value of an ARG',
        'no-cache': 'carries out every step, also what ran before',
        json: 'the result as JSON; the log goes to standard error',
      },
      texts: {
        name: 'NAME',
        cpu: 'N',
        memory: 'SIZE',
        gpus: 'N',
        'start-cmd': 'COMMAND',
        'ready-cmd': 'COMMAND',
      },
      lists: { tag: 'TAG', 'build-arg': 'NAME=VALUE' },
      flags: ['no-cache'],
      run: build,
    },
    add: {
      does: 'Makes a template that Warren knows by itself.',
      about:
        'NAME is code-interpreter, desktop, docker, mcp-gateway or pytorch (which downloads about 3 GB).',
      words: ['NAME'],
      flags: ['full'],
      options: { full: 'installs every optional part of it' },
      run: addBuiltIn,
    },
    list: { does: 'Shows the templates that the team can start.', run: list },
    delete: { does: 'Deletes a template, by its name or id.', words: ['TEMPLATE'], run: remove },
  },
}

async function build(given: Given, { connect, print }: TemplateCommandParts): Promise<string> {
  const { words, values, lists, flags, json } = given
  const folder = resolve(words[0]!)
  const say = (line: string) => print(plainLines(line), json)
  const name = values.name ?? nameOf(folder)
  const sizes = {
    ...(values.cpu !== undefined && { cpuCount: positiveNumber('cpu', values.cpu, command) }),
    ...(values.memory !== undefined && { memoryMB: memoryOf(values.memory, command) }),
  }
  const buildArgs = namedValues('build-arg', lists['build-arg'] ?? [], command)
  const {
    image,
    steps,
    notes,
    startCmd: ownStartCmd,
    gpuCount: labelled,
  } = parseDockerfile(await readDockerfile(folder), buildArgs)
  for (const note of notes) say(`Note: ${note}`)
  const context = await BuildContext.open(folder)
  const files = await Promise.all(steps.map((step) => filesOf(step, context)))
  const startCmd = values['start-cmd'] ?? ownStartCmd
  const readyCmd = values['ready-cmd'] ?? (startCmd ? waitForStart : null)
  const gpuCount = values.gpus === undefined ? labelled : positiveNumber('gpus', values.gpus, command)
  const client = await connect()
  const gpus = gpuCount === undefined ? {} : { gpuCount }
  const requested = await client.request({ name, tags: lists.tag ?? [], ...sizes, ...gpus })
  for (const one of files) if (one) await send(client, requested.templateID, one, context, say)
  await client.start(requested, {
    fromImage: image,
    startCmd,
    readyCmd,
    force: flags.has('no-cache'),
    steps: steps.map(({ type, args }, index) => ({ type, args, filesHash: files[index]?.hash ?? null })),
  } satisfies StartBuild)
  const { status, reason } = await followBuild((offset) => client.status(requested, offset), say)
  if (status === 'error') throw new AppError('unprocessable', failure(reason, steps))
  const { templateID, buildID, names, tags } = requested
  if (json) return asJson({ templateID, buildID, names, tags })
  const reference = `${name.split(':', 1)[0]!.toLowerCase()}${tags.includes('default') ? '' : `:${tags[0]}`}`
  return `The template ${reference} is ready (${templateID}, build ${buildID}). Use it: Sandbox.create('${reference}')`
}

/** The server builds the template; this shows its log. */
async function addBuiltIn(
  { words: [name], flags, json }: Given,
  { connectAdmin, print }: TemplateCommandParts,
): Promise<string> {
  const client = await connectAdmin()
  const made = await client.addBuiltIn(name!, flags.has('full'))
  const say = (line: string) => print(plainLines(line), json)
  if (made.note) say(made.note)
  const { status, reason } = await followBuild((offset) => client.builtInStatus(name!, offset), say)
  if (status === 'error') throw new AppError('unprocessable', failure(reason, []))
  return json ? asJson(made) : `The template ${name} is ready (${made.templateID}, build ${made.buildID}).`
}

async function list({ json }: Given, { connectTeam }: TemplateCommandParts): Promise<string> {
  const client = await connectTeam()
  const found = await client.listTemplates()
  if (json) return asJson(found)
  const base = found.some(({ names }) => names.includes('base')) ? undefined : await client.findAlias('base')
  return table(
    ['TEMPLATE', 'ID', 'STATUS', 'CPU', 'MEMORY', 'BUILDS', 'USED', 'UPDATED'],
    [
      ...(base === undefined ? [] : [['base', base.templateID, 'ready', '-', '-', '-', '-', '-']]),
      ...found.map(rowOf),
    ],
  )
}

const rowOf = (one: Template): string[] => [
  ...[
    one.names.map(shownName).join(' '),
    one.templateID,
    one.buildStatus,
    one.cpuCount === 0 ? '-' : String(one.cpuCount),
    one.memoryMB === 0 ? '-' : `${one.memoryMB} MiB`,
  ],
  ...[String(one.buildCount), `${one.spawnCount} times`, one.updatedAt.slice(0, 10)],
]

/** E2B's clients know the code interpreter by another name than the one it is added by. */
const shownName = (name: string): string =>
  name.endsWith('code-interpreter-v1') ? `code-interpreter (${name})` : name

async function remove(
  { words: [template], json }: Given,
  { connectTeam }: TemplateCommandParts,
): Promise<string> {
  await (await connectTeam()).deleteTemplate(template!).catch((error) => {
    if (!isAppError(error, 'not_found')) throw error
    const hint = '`warren template list` shows them.'
    throw new AppError('not_found', `There is no template '${template}'. ${hint}`, { cause: error })
  })
  return json ? asJson({ template, deleted: true }) : `The template ${template} is deleted.`
}

async function readDockerfile(folder: string): Promise<string> {
  const path = join(folder, 'Dockerfile')
  const refuse = (why: string) => new AppError('invalid_argument', `${path} ${why}.`)
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined
    throw refuse(`cannot be read: ${errorText(error)}`)
  })
  if (!found?.isFile()) {
    throw new AppError('not_found', `There is no Dockerfile in ${folder}: give the folder that has one.`)
  }
  if (found.size > largestDockerfile) throw refuse('is larger than 1 MiB')
  const bytes = await readFile(path).catch((error) => {
    throw refuse(`cannot be read: ${errorText(error)}`)
  })
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    if (!text.includes('\0')) return text
  } catch {
    // Treated like a text with zeros in it.
  }
  throw refuse('is not a UTF-8 text')
}

function nameOf(folder: string): string {
  const name = basename(folder).toLowerCase()
  if (/^[a-z0-9_-]+$/.test(name)) return name
  throw new UsageError(`'${name}' cannot be a template's name: give one with --name.`, command)
}

type StepFiles = { hash: string; entries: Awaited<ReturnType<BuildContext['select']>>; step: DockerStep }

async function filesOf(step: DockerStep, context: BuildContext): Promise<StepFiles | undefined> {
  if (step.source === undefined) return undefined
  try {
    const entries = await context.select(step.source)
    return { hash: await context.hash(step.source, step.args[1] ?? '', entries), entries, step }
  } catch (error) {
    throw new DockerfileError(step.line, errorText(error))
  }
}

async function send(
  client: TemplateClient,
  templateID: string,
  { hash, entries, step }: StepFiles,
  context: BuildContext,
  say: (line: string) => void,
): Promise<void> {
  const { present, url } = await client.findFiles(templateID, hash)
  if (present || !url) return
  const { body, size } = await context.pack(entries)
  say(`Sending ${counted(entries.length, 'file')} of COPY ${step.source} (${Math.ceil(size / 1024)} KiB)`)
  await client.upload(url, { stream: body, size })
}

function failure(reason: BuildStatusAnswer['reason'], steps: readonly DockerStep[]): string {
  const { message, step } = reason ?? { message: 'the server gives no reason.' }
  const line = step === 'base' ? steps[0]?.line : steps[Number(step) - 1]?.line
  if (line !== undefined) return `The build failed in line ${line} of the Dockerfile: ${message}`
  return `The build failed${step === 'finalize' ? ' at its start command' : ''}: ${message}`
}
