/** Checks that the port is free, or names the program that has it. */
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { basename } from 'node:path'
import { AppError } from '../lib/app-error.ts'
import { runCommand } from '../lib/run-command.ts'

/** Called before the long work of a first start, so that nobody waits minutes for an error. */
export async function refusePort(host: string, port: number): Promise<void> {
  const problem = await portProblem(host, port)
  if (problem) throw new AppError('unavailable', problem)
}

export async function portProblem(host: string, port: number): Promise<string | undefined> {
  const code = await new Promise<string | undefined>((resolve) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)))
  })
  if (code === undefined) return undefined
  if (code === 'EADDRINUSE') {
    const holder = await portHolder(port)
    return `Port ${port} is taken${holder ? ` by ${holder}` : ''}. Stop that program, or choose another port: WARREN_PORT=${port === 65535 ? port - 1 : port + 1} npm start`
  }
  if (code === 'EADDRNOTAVAIL') {
    return `This machine has no address ${host}: set WARREN_HOST to one of its own, such as 127.0.0.1 or 0.0.0.0.`
  }
  return `Cannot listen on ${host}:${port}: ${code}.`
}

/** The program and process ID of the listener, as far as the system tells. */
async function portHolder(port: number): Promise<string | undefined> {
  const { stdout } = await runCommand('ss', ['-Hltnp', `sport = :${port}`]).catch(() => ({ stdout: '' }))
  const [, name, pid] = /users:\(\("([^"]+)",pid=(\d+)/.exec(stdout) ?? []
  if (!pid) return undefined
  // ss shows the name of a thread.
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
  return `${basename(command.split(/[\0 ]/)[0] || name!)} (process ${pid})`
}
