/** Runs a template's start command, and waits until its service is ready. */
import { AppError, errorText } from '../../../lib/app-error.ts'
import { type Clock, sleep } from '../../../lib/clock.ts'
import { withDeadline } from '../../../lib/deadline.ts'
import type { AgentCommand, AgentPort, CommandOutput } from '../../ports/agent.ts'
import type { Endpoint } from '../../ports/driver.ts'
import type { TemplateBuild } from '../../template/template.ts'

const readyWithinMs = 10 * 60_000
const askEveryMs = 2000
/** For a template with a start command but no ready command. */
const defaultReadyCmd = 'sleep 20'
const startTag = 'start_cmd'

type StartCommandOptions = {
  clock: Clock
  signal: AbortSignal
  onOutput?: (output: CommandOutput) => void
}

/**
 * Resolves once the service is ready; it then keeps running. Rejects if it failed or never became ready. If
 * the start command ends successfully, it may have left a background service: the wait for readiness
 * continues.
 */
export async function runStartCommand(
  agent: AgentPort,
  endpoint: Endpoint,
  accessToken: string,
  build: Pick<TemplateBuild, 'startCmd' | 'readyCmd' | 'serviceContext' | 'defaultUser' | 'defaultWorkdir'>,
  { clock, signal, onOutput }: StartCommandOptions,
): Promise<void> {
  const context = contextOf(build)
  const listening = new AbortController()
  const stop = AbortSignal.any([signal, listening.signal])
  const command = { ...context, command: build.readyCmd ?? (build.startCmd ? defaultReadyCmd : 'sleep 0') }
  const start = build.startCmd && { ...context, command: build.startCmd, tag: startTag }
  const listen = { ...(onOutput && { onOutput }), signal: stop }
  // Started before the first check for readiness.
  const started = start ? agent.run(endpoint, accessToken, start, listen) : undefined
  const ready = untilReady(agent, endpoint, accessToken, command, { clock, signal: stop })
  const ended = started?.then(
    ({ exitCode, status }) => {
      if (exitCode === 0) return ready
      throw new AppError('unprocessable', `the start command ended before it was ready: ${status}`)
    },
    (error) => {
      throw new AppError('unprocessable', `the start command failed: ${errorText(error)}`, { cause: error })
    },
  )
  try {
    await Promise.race([ready, ...(ended ? [ended] : [])])
  } finally {
    listening.abort()
    await Promise.allSettled([ready, ended])
  }
}

/** The agent already has the build's own variables. */
function contextOf({
  serviceContext,
  defaultUser,
  defaultWorkdir,
}: Pick<TemplateBuild, 'serviceContext' | 'defaultUser' | 'defaultWorkdir'>): Pick<
  AgentCommand,
  'user' | 'cwd' | 'envs'
> {
  if (!serviceContext) return { user: defaultUser, cwd: defaultWorkdir, envs: {} }
  return { user: serviceContext.user, cwd: serviceContext.workdir, envs: serviceContext.envVars }
}

/** A ready command that hangs counts as one that fails. */
async function untilReady(
  agent: AgentPort,
  endpoint: Endpoint,
  accessToken: string,
  command: AgentCommand,
  { clock, signal }: { clock: Clock; signal: AbortSignal },
): Promise<void> {
  const late = `the ready command '${command.command}' did not succeed within ${readyWithinMs / 60_000} minutes`
  const ask = async (deadline: AbortSignal) => {
    const stop = AbortSignal.any([signal, deadline])
    while ((await agent.run(endpoint, accessToken, command, { signal: stop })).exitCode !== 0) {
      await sleep(clock, askEveryMs, stop)
    }
  }
  await withDeadline(readyWithinMs, late, ask, clock)
}
