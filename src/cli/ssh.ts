/** SSH to sandboxes: OpenSSH does the work, and reaches the SSH of a sandbox through this program and the server's one port. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { constants } from 'node:os'
import { sshPath, sshProtocol } from '../contract/constants.ts'
import { AppError, isAppError } from '../lib/app-error.ts'
import { shellJoin, shellQuote } from '../lib/dockerfile/words.ts'
import { UsageError } from './arguments.ts'
import { CommandFailure } from './command-failure.ts'
import { findRunning, type RunParts, rethrow } from './run.ts'
import { explainEnd } from './sandbox-end.ts'
import { sandboxIDOf } from './sandbox-name.ts'
import type { AgentAccess, TeamClient } from './team-client.ts'
import { whichServer } from './team-client.ts'
import type { Given, SingleCommand } from './verbs.ts'

/** The user that stands for the default one of the sandbox, since SSH always names one. */
const defaultUser = 'default'
const hostSuffix = '.warren'
const noSsh = 127

/**
 * The connection is one to the server, whose certificate and tokens have proved both sides. A host key adds nothing, and a list of
 * the keys of sandboxes that live for minutes would only grow.
 */
const sshSettings: readonly [string, string][] = [
  ['StrictHostKeyChecking', 'no'],
  ['UserKnownHostsFile', '/dev/null'],
  ['GlobalKnownHostsFile', '/dev/null'],
  ['PreferredAuthentications', 'none'],
  ['LogLevel', 'ERROR'],
]

const userText = "who logs in (default: the template's user)"

export const sshVerb = {
  does: 'Opens a shell in a sandbox by the `ssh` of this machine, or runs a command in it.',
  about: `It ends with the exit code of the command, or with ssh's own 255. Options stand before
the command:

  warren sandbox ssh SANDBOX
  warren sandbox ssh -L 8080:localhost:80 SANDBOX
  warren sandbox ssh SANDBOX 'cd /app && git log'

\`warren ssh-config\` makes plain ssh, scp, rsync and editors find sandboxes.`,
  words: ['SANDBOX'],
  texts: { user: 'NAME' },
  lists: { local: 'ADDRESS', remote: 'ADDRESS', dynamic: 'ADDRESS' },
  flags: ['no-command', 'tty'],
  shorts: { user: 'u', local: 'L', remote: 'R', dynamic: 'D', 'no-command': 'N', tty: 't' },
  options: {
    user: userText,
    local: 'forwards a port of this machine, as with ssh (default: none)',
    remote: 'forwards a port of the sandbox to this machine (default: none)',
    dynamic: 'a port of this machine for a SOCKS proxy into the sandbox (default: none)',
    'no-command': 'runs nothing: for forwarded ports alone',
    tty: 'gives the command a terminal',
  },
  json: false,
  takesCommand: true,
  run: ssh,
} as const

export const sshProxyVerb = {
  does: 'Connects its input and output with the SSH of a sandbox, for the ProxyCommand of ssh.',
  words: ['SANDBOX'],
  texts: { user: 'NAME' },
  options: { user: userText },
  json: false,
  run: sshProxy,
} as const

export const sshConfigCommand: SingleCommand<Pick<RunParts, 'program'>> = {
  name: 'ssh-config',
  does: 'lines for ~/.ssh/config, by which ssh, scp, rsync and editors find sandboxes',
  notes: whichServer,
  verb: {
    does: 'Prints lines for ~/.ssh/config, by which ssh, scp, rsync and editors find sandboxes.',
    about: `SANDBOX${hostSuffix} is then the host name of a sandbox, by its id or its name:

  warren ssh-config >> ~/.ssh/config
  ssh SANDBOX${hostSuffix}
  scp -r folder SANDBOX${hostSuffix}:
  rsync -a folder SANDBOX${hostSuffix}:`,
    json: false,
    run: async (_given, { program }) => config(program),
  },
}

function config(program: readonly string[]): string {
  const proxy = `${proxyCommand(program)} %n --user %r`
  const lines = [['User', defaultUser], ['ProxyCommand', proxy], ...sshSettings]
  return `# Sandboxes of Warren, by \`warren ssh-config\`. E2B_API_KEY and E2B_API_URL choose the server, where they are set.
Host *${hostSuffix}
${lines.map(([name, value]) => `  ${name} ${value}`).join('\n')}`
}

/** A percent sign begins a token of ssh. */
const proxyCommand = (program: readonly string[]): string =>
  shellJoin([...program, 'sandbox', 'ssh-proxy']).replaceAll('%', '%%')

async function ssh({ words, values, lists, flags, commandLine }: Given, parts: RunParts): Promise<number> {
  if (flags.has('no-command') && commandLine !== undefined)
    throw new UsageError('--no-command takes no command.', 'warren sandbox ssh')
  const client = await parts.connect()
  const sandboxID = await sandboxIDOf(client, words[0]!)
  // Says now what ssh could only call a closed connection.
  await awakenable(client, sandboxID).catch(rethrow)
  const proxy = `${proxyCommand(parts.program)} ${shellQuote(sandboxID)} --user %r`
  const forwards = [
    ['-L', lists.local],
    ['-R', lists.remote],
    ['-D', lists.dynamic],
  ] as const
  const args = [
    ...sshSettings.flatMap(([name, value]) => ['-o', `${name}=${value}`]),
    ...['-o', `ProxyCommand=${proxy}`, '-o', 'ExitOnForwardFailure=yes'],
    ...forwards.flatMap(([option, addresses = []]) => addresses.flatMap((address) => [option, address])),
    ...(flags.has('no-command') ? ['-N'] : []),
    ...(flags.has('tty') ? ['-t'] : []),
    ...['-l', values.user ?? defaultUser, '--', `${sandboxID}${hostSuffix}`],
    ...(commandLine ?? []),
  ]
  // Ctrl-C is for ssh, whose end is ours.
  using _stop = parts.listenForStop()
  const child = spawn('ssh', args, { stdio: 'inherit' })
  const [exit] = await Promise.all([
    Promise.race([
      once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>,
      once(child, 'error').then(([error]) => Promise.reject(notStarted(error))),
    ]),
  ])
  const [code, signal] = exit
  return code ?? 128 + (signal === null ? 0 : constants.signals[signal])
}

function notStarted(error: NodeJS.ErrnoException): Error {
  if (error.code !== 'ENOENT') return error
  const how = 'Install it (apt-get install openssh-client), or use `warren sandbox shell`.'
  return new CommandFailure(`This machine has no \`ssh\`. ${how}`, noSsh, { cause: error })
}

async function sshProxy({ words, values }: Given, parts: RunParts): Promise<number> {
  const client = await parts.connect()
  const word = words[0]!
  const name = word.endsWith(hostSuffix) ? word.slice(0, -hostSuffix.length) : word
  const sandboxID = await sandboxIDOf(client, name)
  try {
    const accessToken = await awakenable(client, sandboxID)
    const socket = await openSsh(client, { sandboxID, accessToken, user: undefined }, values.user)
    return await carry(client, sandboxID, socket, parts)
  } catch (error) {
    return rethrow(error)
  }
}

/** The token of a sandbox that runs, or that traffic wakes. */
async function awakenable(client: TeamClient, sandboxID: string): Promise<string | undefined> {
  const found = await client.getSandbox(sandboxID)
  const wakes = found.state === 'paused' && found.lifecycle?.autoResume === true
  return (wakes ? found : await findRunning(client, sandboxID)).envdAccessToken
}

async function openSsh(client: TeamClient, agent: AgentAccess, user = defaultUser): Promise<Socket> {
  try {
    return await client.upgradeAgent(agent, `${sshPath}?username=${encodeURIComponent(user)}`, sshProtocol)
  } catch (error) {
    if (!isAppError(error, 'not_found') || !/there is no GET/.test(error.message)) throw error
    const how = 'Pause and resume it, or make a new one.'
    throw new AppError('unavailable', `This sandbox was started by a Warren that had no SSH. ${how}`, {
      cause: error,
    })
  }
}

/** Until the connection ends. If its sandbox has ended or was paused, that is the error. */
async function carry(
  client: TeamClient,
  sandboxID: string,
  socket: Socket,
  { input, output }: Pick<RunParts, 'input' | 'output'>,
): Promise<number> {
  let isOver = false
  input.once('end', () => {
    isOver = true
  })
  output.on('error', () => socket.destroy())
  socket.on('error', () => {})
  input.pipe(socket)
  socket.pipe(output)
  await new Promise((resolve) => socket.once('close', resolve))
  // Ssh ends this program as soon as it is done itself.
  const ended = isOver ? undefined : await explainEnd(client, sandboxID, true)
  input.destroy()
  if (ended) throw ended
  return 0
}
