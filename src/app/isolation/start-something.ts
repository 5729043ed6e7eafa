/** Whether a runtime really starts something on this machine. */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openCgroups } from '../../drivers/host/process/cgroups.ts'
import { errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { findSystemProgram } from '../setup/programs.ts'

const startWithinMs = 20_000
const memoryBytes = 256 * 1024 * 1024

/** One static program in an otherwise empty root. */
const spec = {
  process: { args: ['/tini', '--version'], env: ['PATH=/'] },
  mounts: [],
}

/** What a trial runs, beside what all trials have: /proc, namespaces of their own, and limits. */
type Trial = {
  process: { args: readonly string[]; env: readonly string[] }
  mounts: readonly object[]
  devices?: readonly object[]
}

const specOf = (id: string, { process, mounts, devices = [] }: Trial) => ({
  ociVersion: '1.0.2',
  process: { user: { uid: 0, gid: 0 }, cwd: '/', ...process },
  root: { path: 'root', readonly: true },
  mounts: [{ destination: '/proc', type: 'proc', source: 'proc' }, ...mounts],
  linux: {
    cgroupsPath: `/${id}`,
    resources: { memory: { limit: memoryBytes }, pids: { limit: 64 } },
    namespaces: ['pid', 'mount', 'ipc', 'uts', 'network'].map((type) => ({ type })),
    devices,
  },
})

/**
 * Rejects with the runtime's own message. Leaves nothing behind, even if the runtime was cut off half-way.
 */
export async function startSomething(runtime: string, flags: readonly string[]): Promise<void> {
  await tryOnce(runtime, flags, async (folder) => {
    copyFileSync(findSystemProgram('tini-static') ?? '', join(folder, 'root/tini'))
    return spec
  })
}

/** `prepare` fills the folder, in which `root` exists. Returns what the program printed. */
export async function tryOnce(
  runtime: string,
  flags: readonly string[],
  prepare: (folder: string) => Promise<Trial>,
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'warren-trial-'))
  const id = `warren-trial-${process.pid}`
  const common = [...flags, '--root', join(folder, 'state')]
  try {
    mkdirSync(join(folder, 'root/proc'), { recursive: true })
    writeFileSync(join(folder, 'config.json'), JSON.stringify(specOf(id, await prepare(folder))))
    const run = [...common, 'run', '--bundle', folder, id]
    return (await runCommand(runtime, run, { timeoutMs: startWithinMs })).stdout
  } finally {
    await runCommand(runtime, [...common, 'delete', '--force', id]).catch(() => {})
    await endGroup(`/${id}`)
    // gVisor keeps a network namespace mounted there for the next sandbox.
    await runCommand('umount', ['--lazy', join(folder, 'state/null-netns')]).catch(() => {})
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Missing controllers are ignored here: the check of cgroups reports them. */
async function endGroup(group: string): Promise<void> {
  try {
    await openCgroups().end(group)
  } catch {
    return
  }
}

export const lastWords = (error: unknown): string =>
  errorText(error).trim().split('\n').slice(-1)[0]!.slice(-300)
