/**
 * The streams of a process and our ends of them: real pipes, or a terminal. Node's `stdio: 'pipe'` makes
 * sockets, and a program that reopens /dev/stdout or /dev/stderr fails on a socket.
 */
import { closeSync, fchownSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import type { Account } from '../accounts.ts'
import { type Native, openTerminalEnd, type TerminalSize } from './native.ts'
import { type Output, PipeOutput } from './outputs.ts'
import type { SpawnRequest } from './spawn.ts'
import { Terminal } from './terminal.ts'

export type Streams = { stdin?: Writable; terminal?: Terminal; outputs: Output[] }

type OpenedStreams = {
  /** The ends for the process. */
  stdio: SpawnRequest['stdio']
  streams: Streams
  /** Called when the child has its own copies of its ends, or will never have them. */
  closeTheirs(): void
  /** Called if there is no child: our ends are useless. */
  abandon(): void
}

export function openStreams(
  asked: { account: Account; wantsStdin: boolean; terminal: TerminalSize | undefined },
  native: Native,
): OpenedStreams {
  if (asked.terminal) return openTerminal(asked.terminal, asked.account, native)
  return openPipes(asked.wantsStdin, asked.account, native)
}

function openTerminal(size: TerminalSize, account: Account, native: Native): OpenedStreams {
  const { ours, path } = native.openTerminal(size)
  const terminal = new Terminal(native, ours)
  const theirs = openTheirs(path, terminal)
  giveTo(account, theirs)
  return {
    stdio: [theirs, theirs, theirs],
    streams: { terminal, outputs: [{ name: 'pty', open: () => terminal.output }] },
    closeTheirs: () => closeSync(theirs),
    abandon: () => terminal.close(),
  }
}

function openTheirs(path: string, terminal: Terminal): number {
  try {
    return openTerminalEnd(path)
  } catch (error) {
    terminal.close()
    throw error
  }
}

function openPipes(wantsStdin: boolean, account: Account, native: Native): OpenedStreams {
  const theirs: number[] = []
  const closers: (() => void)[] = []
  const open = (writing: boolean): { ours: number; theirs: number } => {
    const { read, write } = native.pipe()
    const end = writing ? { ours: write, theirs: read } : { ours: read, theirs: write }
    theirs.push(end.theirs)
    giveTo(account, end.theirs)
    return end
  }
  const openOutput = (name: 'stdout' | 'stderr'): { output: PipeOutput; theirs: number } => {
    const { ours, theirs } = open(false)
    const output = new PipeOutput(name, ours, native)
    closers.push(() => output.close())
    return { output, theirs }
  }
  const openInput = (): { socket: Socket; theirs: number } => {
    const { ours, theirs } = open(true)
    const socket = new Socket({ fd: ours, readable: false, writable: true })
    closers.push(() => socket.destroy())
    return { socket, theirs }
  }
  const abandon = () => {
    for (const close of closers) close()
  }
  const closeTheirs = () => {
    for (const fd of theirs) closeSync(fd)
  }
  try {
    const stdout = openOutput('stdout')
    const stderr = openOutput('stderr')
    const stdin = wantsStdin ? openInput() : undefined
    return {
      stdio: [stdin?.theirs, stdout.theirs, stderr.theirs],
      streams: { ...(stdin && { stdin: stdin.socket }), outputs: [stdout.output, stderr.output] },
      closeTheirs,
      abandon,
    }
  } catch (error) {
    abandon()
    closeTheirs()
    throw error
  }
}

/** Leaves the group of a file unchanged. */
const unchanged = -1

/** A process may reopen its own streams through /proc/self/fd, so it must own them. */
function giveTo(account: Account, fd: number): void {
  if (account.uid === 0) return
  try {
    fchownSync(fd, account.uid, unchanged)
  } catch {}
}
