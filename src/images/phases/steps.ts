/** The five kinds of build steps. Each runs in the sandbox of the build. */
import { posix } from 'node:path'
import type { CommandOutput } from '../../core/ports/agent.ts'
import { BuildFailure, type BuildFiles } from '../../core/template/builder.ts'
import type { BuildStep } from '../../core/template/start-request.ts'
import { errorText, isAppError } from '../../lib/app-error.ts'
import { expandVariables, largestEnvironment, variablesIn } from '../../lib/variables.ts'
import { copy, keepSearchPath, makeUser, makeWorkdir, readEnvironment } from './scripts.ts'
import type { BuildSite } from './stage.ts'

type StepContext = {
  site: BuildSite
  files: BuildFiles
  teamID: string
  /** The step's number as text, counted from 1. */
  number: string
  onOutput: (output: CommandOutput) => void
  signal: AbortSignal
}

const archive = '/tmp/.warren-files.tar'
const notUploaded = 'its files were not uploaded; build the template again'
const userForm = /^[\w][\w.-]{0,63}(:[\w][\w.-]{0,63})?$/

export async function runStep(step: BuildStep, context: StepContext): Promise<void> {
  switch (step.type) {
    case 'RUN':
      return runCommand(step, context)
    case 'COPY':
      return copyFiles(step, context)
    case 'ENV':
      return setEnvironment(step, context)
    case 'WORKDIR':
      return setWorkdir(step, context)
    case 'USER':
      return setUser(step, context)
  }
}

async function runCommand({ args }: BuildStep, context: StepContext): Promise<void> {
  const [command = '', user] = args
  const { stage } = context.site
  const failed = (why: string, cause?: unknown) =>
    new BuildFailure(context.number, `failed to run command '${shortened(command)}': ${why}`, { cause })
  const sandbox = await context.site.sandbox()
  const { exitCode, status } = await sandbox
    .run({ command, user: user || stage.user, cwd: stage.workdir, envs: stage.envVars }, context)
    .catch((error) => {
      context.signal.throwIfAborted()
      if (!isAppError(error, 'unprocessable')) throw error
      throw failed(`command failed: ${error.message}`, error)
    })
  if (exitCode !== 0) throw failed(status)
}

const longestShownCommand = 300
const shortened = (command: string) =>
  command.length > longestShownCommand ? `${command.slice(0, longestShownCommand)}…` : command

async function copyFiles({ args, filesHash }: BuildStep, context: StepContext): Promise<void> {
  const [source = '', target = '', owner = '', mode = ''] = args
  const { site, files, teamID, number, signal } = context
  const failed = (why: string) =>
    new BuildFailure(number, `failed to copy '${source}' to '${target}': ${why}`)
  if (source === '' || target === '') throw failed('a source and a destination are needed')
  if (owner !== '' && !userForm.test(owner)) throw failed(`'${owner}' is no user`)
  if (mode !== '' && !/^[0-7]{1,4}$/.test(mode)) throw failed(`'${mode}' is no mode`)
  if (filesHash === null || !(await files.has(teamID, filesHash))) throw failed(notUploaded)
  const sandbox = await site.sandbox()
  const envVars = {
    ...(await seenInside([source, target], site.stage.envVars, context)),
    ...site.stage.envVars,
  }
  const body = await files.open(teamID, filesHash)
  if (!body) throw failed(notUploaded)
  await sandbox.write(archive, body, signal)
  await runScript(context, copy, failed, {
    WARREN_ARCHIVE: archive,
    WARREN_SRC: expandVariables(source, envVars),
    WARREN_DEST: expandVariables(target, envVars),
    WARREN_OWNER: withGroup(owner || site.stage.user),
    WARREN_MODE: mode,
  })
}

async function setEnvironment({ args }: BuildStep, context: StepContext): Promise<void> {
  const { site, number } = context
  // Without prototypes, so that a variable may be named __proto__.
  const envVars: Record<string, string> = Object.assign(Object.create(null), site.stage.envVars)
  const known: Record<string, string> = Object.assign(Object.create(null), envVars)
  let length = Object.entries(envVars).reduce((sum, [name, value]) => sum + name.length + value.length, 0)
  for (let at = 0; at < args.length; at += 2) {
    const name = args[at]!
    if (name === '' || /[=\0]/.test(name) || args[at + 1] === undefined) {
      throw new BuildFailure(number, `failed to set '${name}': names and values come in pairs`)
    }
    const value = args[at + 1]!
    const seen = await seenInside([value], known, context)
    for (const [other, found] of Object.entries(seen)) known[other] ??= found
    const expanded = expandVariables(value, known)
    length += expanded.length + (Object.hasOwn(envVars, name) ? -envVars[name]!.length : name.length)
    if (length > largestEnvironment) {
      const tooLong = `all variables together have more than ${largestEnvironment} characters`
      throw new BuildFailure(number, `failed to set '${name}': ${tooLong}`)
    }
    envVars[name] = known[name] = expanded
  }
  if (envVars.PATH !== undefined && envVars.PATH !== site.stage.envVars.PATH) {
    const failed = (why: string) => new BuildFailure(number, `failed to set 'PATH': ${why}`)
    await runScript(context, keepSearchPath, failed, { WARREN_PATH: envVars.PATH })
  }
  site.change({ envVars: { ...envVars } })
}

async function setWorkdir({ args }: BuildStep, context: StepContext): Promise<void> {
  const { site, number } = context
  const given = args[0] ?? ''
  const path = expandVariables(given, {
    ...(await seenInside([given], site.stage.envVars, context)),
    ...site.stage.envVars,
  })
  const failed = (why: string) => new BuildFailure(number, `failed to set the work folder '${path}': ${why}`)
  if (path === '' || path.includes('\0')) throw failed('a path is needed')
  const workdir = posix.resolve(site.stage.workdir || '/', path)
  await runScript(context, makeWorkdir, failed, {
    WARREN_PATH: workdir,
    WARREN_OWNER: withGroup(site.stage.user),
  })
  site.change({ workdir })
}

/** Returns the owner in the form of chown; `user:` means the user and its own group. */
const withGroup = (user: string) => (user.includes(':') ? user : `${user}:`)

async function setUser({ args }: BuildStep, context: StepContext): Promise<void> {
  const { site, number } = context
  const name = expandVariables(args[0] ?? '', site.stage.envVars)
  const failed = (why: string) => new BuildFailure(number, `failed to set the user '${name}': ${why}`)
  if (!userForm.test(name)) throw failed('that is no user')
  const [user, group = ''] = name.split(':') as [string, string?]
  await runScript(context, makeUser, failed, { WARREN_USER: user, WARREN_GROUP: group })
  site.change({ user: name })
}

/** Runs a script as root in the work folder; `envs` has the values of this step. */
async function runScript(
  { site, onOutput, signal }: StepContext,
  command: string,
  failed: (why: string) => BuildFailure,
  envs: Record<string, string>,
): Promise<void> {
  const sandbox = await site.sandbox()
  let said = ''
  const listen = (output: CommandOutput) => {
    if (output.stream === 'stderr' && said.length < 2000) said += output.data.toString()
    onOutput(output)
  }
  const { stage } = site
  const { exitCode, status } = await sandbox
    .run({ command, user: 'root', cwd: stage.workdir, envs }, { onOutput: listen, signal })
    .catch((error) => {
      signal.throwIfAborted()
      throw isAppError(error, 'unprocessable') ? failed(errorText(error)) : error
    })
  if (exitCode !== 0) throw failed(said.trim().split('\n').at(-1) || status)
}

/**
 * Returns the environment of a command of the current user, including variables that no step has set, such as PATH and
 * HOME. Returns nothing, and opens no sandbox, if the texts use only variables in `known`.
 */
async function seenInside(
  texts: string[],
  known: Record<string, string>,
  context: StepContext,
): Promise<Record<string, string>> {
  const { site, number, signal } = context
  const { envVars, user, workdir } = site.stage
  const names = texts.flatMap(variablesIn)
  if (names.every((name) => Object.hasOwn(known, name))) return {}
  const sandbox = await site.sandbox()
  const pieces: Buffer[] = []
  const onOutput = ({ stream, data }: CommandOutput) => void (stream === 'stdout' && pieces.push(data))
  const command = { command: readEnvironment, user, cwd: workdir, envs: envVars }
  const { exitCode, status } = await sandbox.run(command, { onOutput, signal })
  if (exitCode !== 0) throw new BuildFailure(number, `failed to read the environment: ${status}`)
  const entries = Buffer.concat(pieces).toString().split('\0')
  return Object.fromEntries(
    entries.map((entry) => [entry.split('=', 1)[0]!, entry.slice(entry.indexOf('=') + 1)]),
  )
}
