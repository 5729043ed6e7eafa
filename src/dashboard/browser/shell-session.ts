/** A terminal on the page joined to a shell in a sandbox. */
import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import type { Sandbox } from './sandbox-client.ts'
import { styleByScript } from './style-sheets.ts'

export type Shell = { close(): void }

type ShellOptions = { client: Sandbox; element: HTMLElement; user: string; onEnd: (why: string) => void }

const colours = {
  background: '#161514',
  foreground: '#e9e5df',
  cursor: '#5cc7a0',
  selectionBackground: '#3d5a4f',
  black: '#2c2a27',
  red: '#f2867c',
  green: '#7fd0a8',
  yellow: '#e5b566',
  blue: '#7aa7f0',
  magenta: '#c19bf5',
  cyan: '#6cc5c9',
  white: '#d8d3ca',
  brightBlack: '#7d776d',
  brightWhite: '#ffffff',
}

export async function openShell({ client, element, user, onEnd }: ShellOptions): Promise<Shell> {
  const release = styleByScript()
  const terminal = new Terminal({
    theme: colours,
    fontSize: 13,
    lineHeight: 1.25,
    cursorBlink: true,
    scrollback: 5000,
    fontFamily: getComputedStyle(element).getPropertyValue('--mono'),
    screenReaderMode: matchMedia('(prefers-reduced-motion: reduce)').matches,
  })
  const fit = new FitAddon()
  terminal.loadAddon(fit)
  terminal.open(element)
  fit.fit()
  const { cols, rows } = terminal
  const stopped = new AbortController()
  const close = () => {
    stopped.abort()
    observer.disconnect()
    terminal.dispose()
    release()
    element.replaceChildren()
  }
  const observer = new ResizeObserver(() => fit.fit())
  try {
    const handle = await client.pty.create({
      cols,
      rows,
      user,
      timeoutMs: 0,
      onData: (data) => {
        if (!stopped.signal.aborted) terminal.write(data)
      },
    })
    const { pid } = handle
    const input = inOrder((text) => client.pty.sendInput(pid, new TextEncoder().encode(text)))
    terminal.onData((text) => input(text).catch((error: Error) => onEnd(error.message)))
    terminal.onResize((size) => void client.pty.resize(pid, size).catch(() => {}))
    observer.observe(element)
    terminal.focus()
    handle.wait().then(
      ({ exitCode }) => onEnd(`ended with ${exitCode}`),
      (error) => onEnd(error instanceof Error ? error.message : 'ended'),
    )
    return {
      close: () => {
        void handle.kill().catch(() => {})
        close()
      },
    }
  } catch (error) {
    close()
    throw error
  }
}

/** Requests overtake each other, keys must not: the next waits for the one before, and takes along what has come since. */
function inOrder(send: (text: string) => Promise<void>): (text: string) => Promise<void> {
  let waiting = ''
  let sending: Promise<void> | undefined
  const drain = async () => {
    while (waiting !== '') {
      const text = waiting
      waiting = ''
      await send(text)
    }
  }
  return (text) => {
    waiting += text
    sending ??= drain().finally(() => {
      sending = undefined
    })
    return sending
  }
}
