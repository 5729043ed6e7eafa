/** One session of an SSH connection: a shell, a command, or SFTP. It runs as the user of this process. */
import { basename } from 'node:path'
import type { PseudoTtyInfo, ServerChannel, Session } from 'ssh2'
import { errorText } from '../../lib/app-error.ts'
import { spawnWithinLimit } from '../process/launch.ts'
import type { Native, TerminalSize } from '../process/native.ts'
import { hangUp } from '../process/session.ts'
import { openStreams, type Streams } from '../process/streams.ts'
import type { Terminal } from '../process/terminal.ts'
import { serveSftp } from './sftp.ts'
import type { SshStart } from './ssh-start.ts'

const maxVariables = 256
const maxVariableBytes = 64 * 1024
const couldNotStart = 126

type SessionParts = {
  start: Pick<SshStart, 'shell' | 'env'>
  native: Native
  /** Called once the session is over. */
  onEnd: () => void
}

export function serveSession(session: Session, parts: SessionParts): void {
  const asked = { env: {} as Record<string, string>, size: undefined as TerminalSize | undefined, term: '' }
  let running: SessionProcess | undefined
  let variableBytes = 0
  session.on('env', (accept, reject, { key, val }) => {
    variableBytes += Buffer.byteLength(key) + Buffer.byteLength(val)
    const isAllowed = /^[A-Za-z_]\w*$/.test(key) && !val.includes('\0')
    if (!isAllowed || Object.keys(asked.env).length >= maxVariables || variableBytes > maxVariableBytes)
      return reject?.()
    asked.env[key] = val
    accept?.()
  })
  session.on('pty', (accept, _reject, info) => {
    asked.size = sizeOf(info)
    asked.term = termOf(info)
    accept?.()
  })
  session.on('window-change', (accept, _reject, info) => {
    running?.resize(sizeOf(info))
    accept?.()
  })
  session.on('signal', (accept, reject, { name }) => {
    if (running?.signal(name)) accept?.()
    else reject?.()
  })
  const run = (channel: ServerChannel, command: string | undefined): void => {
    try {
      running = new SessionProcess(channel, command, asked, parts)
    } catch (error) {
      channel.stderr.write(`The command could not be started: ${errorText(error)}\n`)
      channel.exit(couldNotStart)
      channel.end()
    }
  }
  session.on('shell', (accept) => run(accept(), undefined))
  session.on('exec', (accept, _reject, { command }) => run(accept(), command))
  session.on('sftp', (accept) => serveSftp(accept()))
  session.once('close', () => {
    running?.leave()
    parts.onEnd()
  })
}

/** The types lack the name of the terminal. */
function termOf(info: PseudoTtyInfo & { term?: string }): string {
  return info.term === undefined || info.term.includes('\0') ? 'xterm' : info.term
}

const sizeOf = ({ cols, rows }: TerminalSize): TerminalSize => ({ cols: cols || 80, rows: rows || 24 })

type Asked = { env: Record<string, string>; size: TerminalSize | undefined; term: string }

class SessionProcess {
  readonly #pid: number
  readonly #terminal: Terminal | undefined
  readonly #channel: ServerChannel
  readonly #leaving = new AbortController()
  #hasExited = false

  constructor(
    channel: ServerChannel,
    command: string | undefined,
    { env, size, term }: Asked,
    { start, native }: SessionParts,
  ) {
    const self = { name: '', uid: 0, gid: 0, home: '/', groups: [] }
    const opened = openStreams({ account: self, wantsStdin: true, terminal: size }, native)
    const { shell } = start
    const variables = { ...start.env, ...env, ...(size && { TERM: term, SSH_TTY: '/dev/tty' }) }
    try {
      this.#pid = spawnWithinLimit(native, {
        program: shell,
        // A dash asks a shell to be one of a login.
        words: command === undefined ? [`-${basename(shell)}`] : [basename(shell), '-c', command],
        variables: Object.entries(variables).map(([name, value]) => `${name}=${value}`),
        cwd: process.cwd(),
        stdio: opened.stdio,
        user: undefined,
        controlsTerminal: size !== undefined,
        oomScore: undefined,
      })
    } catch (error) {
      opened.abandon()
      throw error
    } finally {
      opened.closeTheirs()
    }
    this.#channel = channel
    this.#terminal = opened.streams.terminal
    const outputs = this.#connect(opened.streams)
    native.awaitExit(this.#pid, (exitCode, signal) => this.#exited(exitCode, signal, outputs))
  }

  resize(size: TerminalSize): void {
    try {
      this.#terminal?.resize(size)
    } catch {}
  }

  signal(name: string): boolean {
    if (this.#hasExited) return false
    try {
      return process.kill(-this.#pid, `SIG${name}` as NodeJS.Signals)
    } catch {
      return false
    }
  }

  /** The client has gone. As with any SSH server, this tells only the processes of a terminal. */
  leave(): void {
    this.#leaving.abort()
    if (!this.#terminal) return
    const { hangsUp } = this.#terminal
    this.#terminal.close()
    if (!hangsUp && !this.#hasExited) hangUp(this.#pid)
  }

  /** Resolves when all output has been read. */
  #connect({ stdin, terminal, outputs }: Streams): Promise<unknown> {
    const channel = this.#channel
    channel.on('error', () => {})
    if (terminal) {
      const write = async () => {
        for await (const bytes of channel) await terminal.write(bytes, this.#leaving.signal)
      }
      write().catch(() => {})
    } else if (stdin) {
      stdin.on('error', () => channel.resume())
      channel.pipe(stdin)
    }
    return Promise.all(
      outputs.map((output) => {
        const stream = output.open()
        stream.on('error', () => {})
        // Not ended with one of them: the exit code is sent after both.
        stream.pipe(output.name === 'stderr' ? channel.stderr : channel, { end: false })
        return new Promise((resolve) => stream.once('close', resolve))
      }),
    )
  }

  async #exited(exitCode: number | null, signal: string | null, outputs: Promise<unknown>): Promise<void> {
    this.#hasExited = true
    // Others may hold the output open; OpenSSH waits for them too, unless there is a terminal.
    if (!this.#terminal) await outputs
    else await Promise.race([outputs, graceIsOver()])
    this.#terminal?.close()
    const channel = this.#channel
    if (channel.destroyed) return
    if (signal === null) channel.exit(exitCode ?? 0)
    else channel.exit(signal.replace(/^SIG/, ''), false, '')
    channel.end()
    channel.close()
  }
}

/** Output that a terminal still has when its main process has ended is there at once. */
const terminalGraceMs = 500

/** On a busy machine time can be over before the output was read, so what is there then is read first. */
const graceIsOver = (): Promise<void> =>
  new Promise((resolve) => setTimeout(() => setImmediate(() => setImmediate(resolve)), terminalGraceMs))
