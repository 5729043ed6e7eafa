/** Whether a runtime really starts something on this machine. */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openCgroups } from '../../drivers/host/process/cgroups.ts'
import { errorText } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { findSystemProgram } from '../setup/programs.ts'

const startWithinMs = 20_000

/** One static program in an otherwise empty root, limited, in its own namespaces. */
const spec = (id: string) => ({
  ociVersion: '1.0.2',
  process: { user: { uid: 0, gid: 0 }, args: ['/tini', '--version'], cwd: '/', env: ['PATH=/'] },
  root: { path: 'root', readonly: true },
  mounts: [{ destination: '/proc', type: 'proc', source: 'proc' }],
  linux: {
    cgroupsPath: `/${id}`,
    resources: { memory: { limit: 256 * 1024 * 1024 }, pids: { limit: 64 } },
    namespaces: ['pid', 'mount', 'ipc', 'uts', 'network'].map((type) => ({ type })),
  },
})

/**
 * Rejects with the runtime's own message. Leaves nothing behind, even if the runtime was cut off half-way.
 */
export async function startSomething(runtime: string, flags: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'warren-doctor-'))
  const id = `warren-doctor-${process.pid}`
  const common = [...flags, '--root', join(folder, 'state')]
  try {
    mkdirSync(join(folder, 'root/proc'), { recursive: true })
    copyFileSync(findSystemProgram('tini-static') ?? '', join(folder, 'root/tini'))
    writeFileSync(join(folder, 'config.json'), JSON.stringify(spec(id)))
    await runCommand(runtime, [...common, 'run', '--bundle', folder, id], { timeoutMs: startWithinMs })
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
