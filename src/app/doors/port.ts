/** Checks that the port is free, or names the program that has it. */
import { readdir, readFile, readlink, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { basename, dirname } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { dataPaths, readServerFile } from '../data/data-folder.ts'

type PortProblem = {
  text: string
  /** The data folder of the Warren that has the port, and that Warren as a sentence names it. */
  warren?: { dataFolder: string; name: string }
}

/** Called before the long work of a first start, so that nobody waits minutes for an error. */
export async function refusePort(host: string, port: number): Promise<void> {
  const problem = await portProblem(host, port)
  if (problem) throw new AppError('unavailable', problem.text)
}

export async function portProblem(host: string, port: number): Promise<PortProblem | undefined> {
  const code = await new Promise<string | undefined>((resolve) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
  if (code === undefined) return undefined
  if (code === 'EADDRINUSE') return inUseBy(await portHolders(host, port), port)
  if (code === 'EADDRNOTAVAIL') {
    return {
      text: `This machine has no address ${host}: set WARREN_HOST to one of its own, such as 127.0.0.1 or 0.0.0.0.`,
    }
  }
  return { text: `Cannot listen on ${host}:${port}: ${code}.` }
}

/** `name` is missing if the system does not tell. */
type PortListener = { name?: string; dataFolder?: string }

/** If a stranger has one of the addresses and a Warren another, the stranger is the problem. */
function inUseBy(listeners: PortListener[], port: number): PortProblem {
  const listener = listeners.find(({ dataFolder }) => dataFolder === undefined) ?? listeners[0]
  const other = port === 65535 ? port - 1 : port + 1
  const { name, dataFolder } = listener ?? {}
  const text = `Port ${port} is taken${name ? ` by ${name}` : ''}. Stop that program, or choose another port: WARREN_PORT=${other} npm start`
  return name && dataFolder ? { text, warren: { name, dataFolder } } : { text }
}

/** Who listens on the port at this address or at all addresses: one holder for each socket. */
async function portHolders(host: string, port: number): Promise<PortListener[]> {
  const { stdout } = await runCommand('ss', ['-Hltnp', `sport = :${port}`]).catch(() => ({ stdout: '' }))
  const lines = stdout.split('\n').filter((line) => line !== '' && collides(line, host))
  return Promise.all(lines.map((line) => requestOwnerOf(line)))
}

const anyAddress = new Set(['*', '0.0.0.0', '::'])

function collides(line: string, host: string): boolean {
  const address = line
    .split(/\s+/)[3]!
    .replace(/(%\w+)?:\d+$/, '')
    .replace(/^\[|\]$/g, '')
  return address === host || anyAddress.has(address) || anyAddress.has(host)
}

/** Several processes may have one socket: systemd opens it and hands it to a Warren. */
async function requestOwnerOf(line: string): Promise<PortListener> {
  const found = [...line.matchAll(/\("([^"]+)",pid=(\d+)/g)].map(([, name, pid]) => ({
    name: name!,
    pid: Number(pid),
  }))
  for (const { pid } of found) {
    const dataFolder = await findDataFolder(pid)
    if (dataFolder !== undefined) return { name: `the Warren of ${dataFolder} (process ${pid})`, dataFolder }
  }
  const [first] = found
  if (!first) return {}
  // ss shows the name of a thread.
  const command = await readFile(`/proc/${first.pid}/cmdline`, 'utf8').catch(() => '')
  return { name: `${basename(command.split(/[\0 ]/)[0] || first.name)} (process ${first.pid})` }
}

/**
 * A name proves nothing. A Warren runs as root, keeps the lock of its data folder open, and the folder names the process as
 * its server.
 */
async function findDataFolder(pid: number): Promise<string | undefined> {
  try {
    if ((await stat(`/proc/${pid}`)).uid !== 0) return undefined
    for (const fd of await readdir(`/proc/${pid}/fd`)) {
      const file = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')
      const paths = dataPaths(dirname(file))
      if (file === paths.lock && (await readServerFile(paths))?.pid === pid) return paths.root
    }
  } catch {
    // It has ended, or may not be looked at.
  }
  return undefined
}
