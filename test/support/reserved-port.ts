/** A port that stays open while Warrens that serve it come and go, as systemd keeps it, and a machine that is kept busy. */
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { spawnBound } from './spawn-bound.ts'
import { repoFolder } from './warren.ts'

const keeperProgram = join(repoFolder, 'test/support/socket-keeper.py')

export type ReservedPort = {
  /** The process that keeps the port. */
  pid: number
  /** Starts a Warren that serves on the port. */
  launcher: string
  close(): void
}

export async function reservePort(port: number): Promise<ReservedPort> {
  const folder = mkdtempSync(join(tmpdir(), 'warren-port-'))
  const path = join(folder, 'keeper')
  const args = [keeperProgram, 'keep', '127.0.0.1', String(port), path]
  const keeper = spawnBound('python3', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(keeper.stdout!, 'data')
  const launcher = join(folder, 'warren')
  const command = `exec python3 ${keeperProgram} start ${path} ${join(repoFolder, 'bin/warren')} "$@"`
  writeFileSync(launcher, `#!/bin/sh\n${command}\n`)
  chmodSync(launcher, 0o755)
  return {
    pid: keeper.pid!,
    launcher,
    close: () => {
      keeper.kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Keeps the machine so busy that this process and Warren often wait for a CPU; the kernel ends it with this process. */
export function spinUntilEnd(context: TestContext): void {
  const spinning = Array.from({ length: 4 * availableParallelism() }, () =>
    spawnBound('sh', ['-c', 'while :; do :; done'], { stdio: 'ignore' }),
  )
  context.after(() => {
    for (const child of spinning) child.kill('SIGKILL')
  })
}
