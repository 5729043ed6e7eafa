/** `warren start`: prepares the machine, serves, and closes on a signal. */
import { join } from 'node:path'
import pino from 'pino'
import type { Dashboard } from '../../api/routes/dashboard/dashboard.ts'
import { banner, serviceLine } from '../../cli/env.ts'
import { instanceOf } from '../../drivers/host/record/layout.ts'
import { AppError, isAppError } from '../../lib/app-error.ts'
import { delay, systemClock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { raisePriority, restorePriority } from '../../lib/priority.ts'
import { currentRequestID } from '../../lib/request-id.ts'
import { startProgramsInThread } from '../../lib/run-command.ts'
import { buildAgentKit } from '../agent-kit/agent-kit.ts'
import { type Config, inheritedSockets } from '../config/config.ts'
import { type DataPaths, openDataFolder, readServerFile } from '../data/data-folder.ts'
import { lockDataFolder } from '../data/data-lock.ts'
import { FileReserve, freeBytes, readDiskLevels } from '../data/disk-reserve.ts'
import { refusePort } from '../doors/port.ts'
import { type ChosenIsolation, chooseIsolation } from '../isolation/choose-isolation.ts'
import { installedProgram } from '../isolation/isolation-runtime.ts'
import { isolations } from '../isolation/isolations.ts'
import { sandboxOwner } from '../isolation/sandbox-owner.ts'
import { gpuSupportOf } from '../machine/gpu-support.ts'
import { chooseGpus } from '../machine/gpus.ts'
import { choosePageServer } from '../machine/page-server.ts'
import { prepareMachine } from '../machine/prepare-machine.ts'
import { reportLastEnd } from '../process/last-end.ts'
import { ShutdownSignals } from '../process/shutdown-signals.ts'
import { refusedStatus, StartRefusal } from '../process/start-refusal.ts'
import { openDashboard } from '../project/dashboard-bundle.ts'
import { projectFolder } from '../project/project-folder.ts'
import { createProgress, type Progress } from '../setup/progress.ts'
import { baseFetcher, openObjects } from '../storage/open-objects.ts'
import { readExtraCA, trustInThisProcess } from '../trust/extra-ca.ts'
import { type RunningServer, type ServeParts, serve } from './serve.ts'

/** Maximum number of bytes of the log to hold back while it cannot be written. */
const maxLogBytes = 256 * 1024

export async function start(config: Config): Promise<void> {
  refuseMachine(process.platform, process.arch, process.getuid?.())
  const paths = await openDataFolder(config.dataDir, config.secretsDir ?? undefined)
  await makeSpaceToStart(paths, config)
  const lock = await lockOrExplain(paths)
  if (inheritedSockets().door === undefined) await refusePort(config.host, config.port)
  // A wrong file is reported here, before the set-up, which takes long.
  const extraCA = config.extraCA === null ? undefined : readExtraCA(config.extraCA)
  if (extraCA !== undefined) trustInThisProcess(extraCA)
  const signals = new ShutdownSignals()
  const stopped = signals.next()
  const log = pino({ level: config.logLevel, mixin: requestFields }, openLogOutput())
  try {
    await reportLastEnd(paths, systemClock, log)
    const node = { folderID: lock.folderID, onReplaced: (problem: AppError) => endAtOnce(problem, log) }
    const running = await Promise.race([bringUp(config, paths, node, log), stopped])
    if (typeof running === 'string') return interrupted(running)
    const signal = await stopped
    const { stopDelaySeconds } = config
    if (stopDelaySeconds > 0 || inheritedSockets().door !== undefined) {
      const text = 'still serving while clients leave; another signal ends this delay'
      log.info({ signal, stopDelaySeconds }, text)
      await signals.waitFor(Promise.all([running.askToLeave(), delay(stopDelaySeconds * 1000)]))
    }
    log.info({ signal }, 'closing')
    await running.close()
    log.info({}, 'closed')
  } finally {
    // The session may be that of the operator's terminal, which stays open.
    restorePriority()
    lock.release()
  }
  // A part that did not close in time must not keep the process alive.
  process.exit(0)
}

/** A second start on a data folder says where the first one serves. */
async function lockOrExplain(paths: DataPaths): Promise<ReturnType<typeof lockDataFolder>> {
  try {
    return lockDataFolder(paths.lock)
  } catch (error) {
    const server = isAppError(error) && error.code === 'already_exists' && (await readServerFile(paths))
    if (!server) throw error
    const program = join(projectFolder, 'bin/warren')
    throw new AppError(
      'already_exists',
      `Warren serves already: ${server.url}, dashboard at ${server.url}/dashboard. \`${program} env\` prints the key. ${error.message}`,
      { cause: error },
    )
  }
}

/** On a full disk not even the lock can be written. The other half of the reserve stays until all writers are frozen. */
async function makeSpaceToStart({ root }: DataPaths, { diskReserveMB }: Config): Promise<void> {
  const { endBytes, reserveBytes } = await readDiskLevels(root, diskReserveMB)
  if ((await freeBytes(root)) < endBytes) await new FileReserve(root, reserveBytes).giveUpHalf()
}

/** If the log cannot be written, for example to a file on a full disk, the server drops lines and keeps running. */
function openLogOutput() {
  const output = pino.destination({ dest: 2, sync: true, maxLength: maxLogBytes })
  output.on('error', () => {})
  process.stdout.on('error', () => {})
  return output
}

/** Every log line that belongs to a request has the request's id. */
function requestFields(): object {
  const requestID = currentRequestID()
  return requestID === undefined ? {} : { requestID }
}

async function bringUp(
  config: Config,
  paths: DataPaths,
  node: Pick<ServeParts, 'folderID' | 'onReplaced'>,
  log: Log,
): Promise<RunningServer> {
  const progress = createProgress(process.stderr)
  const machine = await prepareMachine(
    config,
    paths,
    progress,
    baseFetcher(() => openObjects(config)),
  )
  const kit = await buildAgentKit({ folder: `${paths.runtimes}/agent`, nodeBinary: process.execPath })
  const openDashboard = dashboardIn(`${paths.runtimes}/dashboard`, log)
  const programOf = (_: unknown, name: string) => installedProgram(machine.runtimes[name])
  const gpuSupport = () => gpuSupportOf(config, programOf)
  const gpus = await chooseGpus(config, gpuSupport, (message) => log.warn({}, message))
  const pageServer = await choosePageServer(config, paths.root, (message) => log.warn({}, message))
  const isolation = await chooseIsolation(config.isolation, machine.runtimes, {
    uidBase: sandboxOwner,
    dataFolder: paths.root,
    instance: instanceOf(paths.root),
    subnet: config.subnet,
    agentFolders: [kit.folder],
    dnsServers: config.dnsServers,
    openedRanges: config.allowPrivateEgress,
    poolDiskMB: config.defaultDiskMB,
    ...(config.memoryMB !== null && { totalMemoryMB: config.memoryMB }),
    platform:
      config.gvisorPlatform === 'auto' ? { agent: kit, sampleWork: kit.sampleWork } : config.gvisorPlatform,
    ...(gpus && { gpus }),
    ...(pageServer !== undefined && { pageServer }),
    log: (message, cause) => log.warn({ err: cause }, message),
  })
  const { baseRootFolder } = machine
  const problem = raisePriority()
  if (problem)
    log.info({}, `The server cannot get a higher priority than the programs that it starts: ${problem}`)
  startProgramsInThread()
  await prepareBase(progress, () => isolation.driver.prepare(baseRootFolder))
  const running = await serve({
    ...node,
    config,
    paths,
    isolation,
    agentProgram: kit,
    baseRootFolder,
    openDashboard,
    log,
  })
  const { url, domain } = running.server
  const { apiKey } = running.credentials
  // Others may read a file or a journal, so the key goes to a terminal only.
  const greeting = process.stdout.isTTY ? banner : serviceLine
  const program = join(projectFolder, 'bin/warren')
  process.stdout.write(greeting({ url, domain, apiKey }, describe(isolation), program))
  if (isolation.fallback) process.stdout.write(`\nWARNING: ${isolation.fallback.warning}\n`)
  return running
}

/** Bundles the dashboard in the background. If that fails, the next request for the dashboard tries again. */
function dashboardIn(folder: string, log: Log): () => Promise<Dashboard> {
  let opened: Promise<Dashboard> | undefined
  const open = () => {
    opened ??= openDashboard(folder).catch((error) => {
      opened = undefined
      throw new AppError('unavailable', 'The dashboard could not be bundled; the log of Warren says why', {
        cause: error,
      })
    })
    return opened
  }
  open().catch((error) => log.warn({ err: error.cause }, 'The dashboard could not be bundled.'))
  return open
}

/** Shows the step only if it takes long; it is short if an earlier start has already done it. */
async function prepareBase(progress: Progress, prepare: () => Promise<void>): Promise<void> {
  const preparing = prepare()
  const soon = new Promise<'slow'>((resolve) => setTimeout(resolve, 500, 'slow').unref())
  if ((await Promise.race([preparing, soon])) === 'slow') {
    await progress.step('Prepare the base template for sandboxes', () => preparing)
  }
}

function describe({ isolation, fallback }: ChosenIsolation): string {
  const { protection } = isolations[isolation]
  return fallback ? `${protection}, a weaker isolation: see the warning below` : protection
}

/** Rejects machines on which Warren can never run. */
export function refuseMachine(platform: string, arch: string, uid: number | undefined): void {
  if (platform !== 'linux') {
    throw new StartRefusal('unavailable', `Warren needs Linux; this is ${platform}.`)
  }
  if (arch !== 'x64' && arch !== 'arm64') {
    throw new StartRefusal('unavailable', `Warren runs on x86-64, and untried on arm64; this is ${arch}.`)
  }
  if (uid !== 0) {
    throw new StartRefusal(
      'permission_denied',
      'Warren must run as root: it makes namespaces, mounts and firewall rules for sandboxes. Root inside a sandbox is not root of the machine. Run `sudo npm start`.',
    )
  }
}

/** The programs of the set-up end with this process; the next start goes on with their unfinished files. */
function interrupted(signal: string): never {
  process.stderr.write(`\nInterrupted (${signal}). The next start goes on from there.\n`)
  process.exit(130)
}

/**
 * Closing would take seconds, in which requests and jobs could still change rows that are another Warren's now. What this
 * process leaves behind is what a killed one leaves.
 */
function endAtOnce({ message }: AppError, log: Log): never {
  log.error({}, message)
  restorePriority()
  process.exit(refusedStatus)
}
