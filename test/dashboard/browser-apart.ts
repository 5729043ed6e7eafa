/**
 * Chromium in a network of its own, in which one port leads to the same port of this machine. It breaks off connections
 * with TLS whenever an interface comes or goes, and on a machine that runs tests some do all the time.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'
import { openBrowser } from './browser.ts'

/** Carries connections to the port inside on to the socket of a file outside. */
const inside = `
import { connect, createServer } from 'node:net'
const [port, file] = process.argv.slice(2)
createServer((one) => {
  const other = connect(file)
  one.pipe(other).pipe(one)
  for (const end of [one, other]) end.on('error', () => { one.destroy(); other.destroy() })
}).listen(Number(port), '127.0.0.1')
`

const launcher = (program: string, port: number, socket: string) => `#!/bin/sh
exec unshare --net sh -c 'ip link set lo up
${process.execPath} ${program} ${port} ${socket} 3<&- 4>&- &
/usr/bin/chromium "$@"
kill $!' sh "$@"
`

export async function openBrowserApart(port: number, args: string[]): Promise<Browser> {
  // Installs it where it is missing.
  await (await openBrowser()).close()
  const folder = mkdtempSync(join(tmpdir(), 'browser-'))
  const [program, socket, file] = ['inside.mjs', 'socket', 'chromium'].map((name) => join(folder, name))
  writeFileSync(program!, inside)
  writeFileSync(file!, launcher(program!, port, socket!), { mode: 0o755 })
  const server = createServer((one) => carry(one, connect(port, '127.0.0.1'))).listen(socket)
  await once(server, 'listening')
  const browser = await chromium.launch({ executablePath: file!, args: ['--no-sandbox', ...args] })
  browser.on('disconnected', () => {
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  return browser
}

function carry(one: Socket, other: Socket): void {
  one.pipe(other).pipe(one)
  for (const end of [one, other]) {
    end.on('error', () => {
      one.destroy()
      other.destroy()
    })
  }
}
