/**
 * Where SSH enters a sandbox: a request with the sandbox's token is upgraded to a connection of SSH, served by a process of its own
 * that runs as the user who logs in. No port is opened, and no key is stored: whoever has the token may run anything here anyway.
 */
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { dirname, join } from 'node:path'
import type { Duplex } from 'node:stream'
import { sshPath, sshProtocol } from '../../contract/constants.ts'
import { AppError } from '../../lib/app-error.ts'
import { requireToken } from '../access.ts'
import type { Account } from '../accounts.ts'
import type { Identity } from '../identity.ts'
import type { AgentLog } from '../log/agent-log.ts'
import { commandOomScore, searchPath, spawnWithinLimit } from '../process/launch.ts'
import { loadNative } from '../process/native.ts'
import { sendRejection } from '../relay.ts'
import type { SshStart } from './ssh-start.ts'

/** Each is a process with its own memory. */
const maxConnections = 32
/** The user name that stands for the sandbox's default user, unless an account has it. */
const defaultLogin = 'default'
const shells = ['/bin/bash', '/bin/sh']
/** How long a process may take to end after its connection. */
const endWithinMs = 5000

type SshDoorOptions = {
  identity: Identity
  log: AgentLog
  addon: string
  /** The command that serves one connection; unless given, it is beside the agent. */
  command?: (() => string[]) | undefined
  /** Called for each started process. */
  onStart?: (() => void) | undefined
}

export class SshDoor {
  readonly #options: SshDoorOptions
  #connections = 0

  constructor(options: SshDoorOptions) {
    this.#options = options
  }

  open(request: IncomingMessage, client: Duplex, head: Buffer): void {
    client.on('error', () => client.destroy())
    this.#open(request, client, head).catch((error) => sendRejection(client, error))
  }

  async #open(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    const { identity } = this.#options
    requireToken(identity, request)
    const [path, query] = (request.url ?? '').split('?', 2)
    if (request.method !== 'GET' || path !== sshPath)
      throw new AppError('not_found', `only ${sshPath} can be upgraded to ${sshProtocol}`)
    const login = new URLSearchParams(query).get('username') || defaultLogin
    const account = this.#account(login)
    if (this.#connections >= maxConnections) {
      const message = `The sandbox has too many SSH connections (limit: ${maxConnections}). Close one first.`
      throw new AppError('limit_reached', message)
    }
    const start = await this.#startOf(account, login)
    if (client.destroyed) return
    this.#serve(client, head, account, start)
  }

  #account(login: string): Account {
    const { identity } = this.#options
    const account = identity.account(login) ?? (login === defaultLogin ? identity.account('') : undefined)
    if (account) return account
    const how = `Use another, or '${defaultLogin}' for the sandbox's own.`
    throw new AppError('invalid_argument', `The sandbox has no user '${login}'. ${how}`)
  }

  async #startOf({ name, home }: Account, login: string): Promise<SshStart> {
    const { identity } = this.#options
    const { hostKeyOf } = await import('./host-key.ts')
    const wanted = identity.accounts.shell(name)
    const shell = [...(wanted === undefined ? [] : [wanted]), ...shells].find((path) => existsSync(path))
    const env = {
      PATH: searchPath,
      HOME: home,
      USER: name,
      LOGNAME: name,
      SHELL: shell ?? '/bin/sh',
      // Shells and tools tell by these that they are reached through SSH.
      SSH_CLIENT: '127.0.0.1 0 22',
      SSH_CONNECTION: '127.0.0.1 0 127.0.0.1 22',
      ...identity.trustVars,
      ...identity.envVars,
    }
    return { hostKey: identity.derive(hostKeyOf), login, shell: env.SHELL, env }
  }

  #serve(client: Duplex, head: Buffer, account: Account, start: SshStart): void {
    const { log, command = ownCommand } = this.#options
    const { input, output, pid, onExit } = this.#spawn(command(), account)
    this.#connections++
    this.#options.onStart?.()
    log.add('info', `SSH connection of ${account.name}`, { logger: 'agent', event_type: 'ssh_opened' })
    let hasExited = false
    let overdue: NodeJS.Timeout | undefined
    onExit(() => {
      hasExited = true
      this.#connections--
      clearTimeout(overdue)
      output.once('close', () => client.end(() => client.destroy()))
    })
    for (const stream of [input, output]) stream.on('error', () => {})
    const leave = () => {
      input.end()
      if (!hasExited) overdue ??= setTimeout(() => process.kill(pid, 'SIGKILL'), endWithinMs)
    }
    client.once('end', leave)
    client.once('close', leave)
    input.write(`${JSON.stringify(start)}\n`)
    client.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${sshProtocol}\r\n\r\n`)
    if (head.length > 0) input.write(head)
    client.pipe(input)
    output.pipe(client)
  }

  /** The environment of the sandbox is for the sessions: in the server's own it could load a library or a script into it. */
  #spawn([program = '', ...words]: string[], { uid, gid, groups, home }: Account) {
    const native = loadNative(this.#options.addon)
    const [stdin, stdout] = [native.pipe(), native.pipe()]
    const stderr = openSync('/dev/null', 'w')
    const input = new Socket({ fd: stdin.write, readable: false, writable: true })
    const output = new Socket({ fd: stdout.read, readable: true, writable: false })
    const startIn = (cwd: string): number =>
      spawnWithinLimit(native, {
        program,
        words: [program, ...words],
        variables: ['MALLOC_ARENA_MAX=1'],
        cwd,
        stdio: [stdin.read, stdout.write, stderr],
        user: uid === 0 && gid === 0 ? undefined : { uid, gid, groups },
        controlsTerminal: false,
        oomScore: commandOomScore(),
      })
    try {
      const pid = startAtHome(startIn, home)
      return { input, output, pid, onExit: (listener: () => void) => native.awaitExit(pid, listener) }
    } catch (error) {
      input.destroy()
      output.destroy()
      throw new AppError(
        'limit_reached',
        'SSH could not be started: too many processes or too little memory',
        {
          cause: error,
        },
      )
    } finally {
      for (const fd of [stdin.read, stdout.write, stderr]) closeSync(fd)
    }
  }
}

/** The agent's own loader, Node and flags, with the file for SSH in place of the agent's. */
function ownCommand(): string[] {
  const words = readFileSync('/proc/self/cmdline', 'utf8').split('\0')
  const own = process.argv[1]!
  return [...words.slice(0, words.indexOf(own)), join(dirname(own), 'ssh.cjs')]
}

/** A home may be missing, or closed to its user. */
function startAtHome(startIn: (cwd: string) => number, home: string): number {
  try {
    return startIn(home)
  } catch {
    return startIn('/')
  }
}
