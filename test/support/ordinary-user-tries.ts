/** The process of `ordinary-user.ts`: it gives up its rights before it tries anything. */
import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Done, Tries } from './ordinary-user.ts'

const nobody = 65_534
const { O_NONBLOCK, O_RDONLY, O_WRONLY } = constants

const { paths = [], programs = [], sockets = [], pids = [] } = JSON.parse(readFileSync(0, 'utf8')) as Tries
process.setgroups!([])
process.setgid!(nobody)
process.setuid!(nobody)

function succeeds(work: () => void): boolean {
  try {
    work()
    return true
  } catch {
    return false
  }
}

/** A file that can be opened and whose content stays closed is not read: namespaces are such. */
function read(path: string): void {
  if (statSync(path).isDirectory()) return void readdirSync(path)
  const file = openSync(path, O_RDONLY | O_NONBLOCK)
  try {
    readSync(file, Buffer.alloc(1))
  } finally {
    closeSync(file)
  }
}

const write = (path: string) => closeSync(openSync(path, O_WRONLY | O_NONBLOCK))

function connects(name: string): Promise<boolean> {
  const [, host, port] = /^([\d.]+):(\d+)$/.exec(name) ?? []
  const socket =
    host === undefined ? connect({ path: name.replace(/^@/, '\0') }) : connect({ host, port: Number(port) })
  return new Promise((resolve) => {
    const end = (isOpen: boolean) => {
      socket.destroy()
      resolve(isOpen)
    }
    socket.once('connect', () => end(true))
    socket.once('error', () => end(false))
    socket.setTimeout(3_000, () => end(false))
  })
}

const names = [
  'environ',
  'cmdline',
  'maps',
  'mem',
  'auxv',
  'syscall',
  'stack',
  'mountinfo',
  'io',
  'numa_maps',
]
const folders = ['root', 'cwd', 'fd', 'map_files', 'fdinfo']

function shownBy(pid: number): [string, string][] {
  const own = `/proc/${pid}`
  const files = [...names, ...['net/tcp', 'net/unix', 'status', 'cgroup', 'stat']].map((name) =>
    join(own, name),
  )
  const texts = files.flatMap((path): [string, string][] => {
    try {
      return [[path, readFileSync(path, 'latin1')]]
    } catch {
      return []
    }
  })
  const listed = folders.flatMap((name): [string, string][] => {
    try {
      return [[join(own, name), readdirSync(join(own, name)).join(' ')]]
    } catch {
      return []
    }
  })
  return [...texts, ...listed]
}

const connected: string[] = []
for (const name of sockets) if (await connects(name)) connected.push(name)
const done: Done = {
  read: paths.filter((path) => succeeds(() => read(path))),
  written: paths.filter((path) => succeeds(() => write(path))),
  run: programs.filter((path) => succeeds(() => execFileSync(path, { stdio: 'ignore', timeout: 5_000 }))),
  connected,
  signalled: pids.filter((pid) => succeeds(() => process.kill(pid, 0))),
  shown: Object.fromEntries(pids.flatMap(shownBy)),
}
process.stdout.write(JSON.stringify(done))
