/**
 * Runs the runtime that starts a sandbox, in the mount namespace of the sandbox's slot and under its limits.
 */
import { AppError, errorText } from '../../../lib/app-error.ts'
import { awaitChild, killChild } from '../../../lib/await-child.ts'
import { explainRestore } from '../../host/disk/shared-disks.ts'
import type { ResourceLimit } from '../../host/namespace/start-runtime.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import type { OciContext } from '../context/context.ts'
import { processCountLimit, processLimits } from '../runtime/container-spec.ts'
import { flavourOf } from '../runtime/flavours.ts'
import { startArguments } from '../runtime/runtime-commands.ts'
import { runtimeComplaint } from '../runtime/runtime-files.ts'
import type { StartParts } from './bundle.ts'

const startLimitMs = 60_000
/**
 * The maximum is 1000: this is above the server and most other programs, with headroom for processes inside.
 */
const sandboxOomScore = 500
const toolPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/**
 * Its arguments: a file to create before the sandbox runs on the files of a snapshot, and the runtime's
 * command line. The file marks a restore that outlives this process, so its creator must outlive it too.
 */
const markAndRun = `set -e
ran=$1
shift
: > "$ran"
"$@" || { rm "$ran"; exit 1; }`

/**
 * The runtime gets no pipe of ours: the sandbox would hold it open. If the whole machine is short of memory,
 * sandboxes die before the server that would start them again.
 */
export async function runRuntime(
  context: OciContext,
  record: SandboxRecord,
  { plan, users }: StartParts,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { layout, namespaces } = context
  const command = startArguments(layout, record, plan?.memory)
  const mark = plan?.consumedMark
  try {
    const pid = await namespaces.start({
      namespace: layout.mountNamespace(record.slot),
      command: mark ? ['/bin/sh', '-c', markAndRun, 'sh', mark, ...command] : command,
      variables: [`PATH=${toolPath}`],
      limits: flavourOf(record).inheritsLimits ? inheritedLimits(context, users !== undefined) : [],
      oomScore: sandboxOomScore,
    })
    await untilDone(pid, signal)
  } catch (error) {
    signal?.throwIfAborted()
    throw await startError(layout.sandbox(record.sandboxID), record, error)
  }
}

/** Rejects at once if the signal aborts, and kills the runtime. */
async function untilDone(pid: number, signal: AbortSignal | undefined): Promise<void> {
  const ended = awaitChild(pid)
  const kill = () => killChild(pid)
  const timer = setTimeout(kill, startLimitMs)
  const aborted = Promise.withResolvers<never>()
  const abort = () => {
    kill()
    aborted.reject(signal?.reason)
  }
  signal?.addEventListener('abort', abort, { once: true })
  try {
    if (signal?.aborted) abort()
    const exitCode = await Promise.race([ended, aborted.promise])
    if (exitCode !== 0) throw new Error(`It ended with ${exitCode ?? 'a signal'}.`)
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', abort)
  }
}

/**
 * The runtime passes its own limits on to the sandbox. If sandboxes share users, the kernel would count the
 * processes of all of them together, so only their cgroup limits these.
 */
function inheritedLimits({ openFilesLimit, pidsLimit }: OciContext, hasOwnUsers: boolean): ResourceLimit[] {
  const perUser = processCountLimit(pidsLimit - Math.ceil(pidsLimit / 8))
  return [...processLimits(openFilesLimit), ...(hasOwnUsers ? [perUser] : [])]
}

async function startError(folder: string, record: SandboxRecord, error: unknown): Promise<AppError> {
  const complaint = (await runtimeComplaint(folder)) ?? errorText(error)
  const explained = explainRestore(complaint, record)
  if (explained) return explained
  const { runtime } = flavourOf(record)
  // The runtime's message names folders and processes of the host: it is for the log only.
  const message = `${runtime} could not start the sandbox; the log of the server has the cause.`
  const failure = new Error(`${runtime} could not start sandbox ${record.sandboxID}: ${complaint}`, {
    cause: error,
  })
  return new AppError('unavailable', message, { cause: failure })
}
