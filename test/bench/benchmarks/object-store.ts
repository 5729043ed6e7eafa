/** The first command after a resume from the object store, as on a machine that never had the sandbox, beside one from the local disk. */
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Sandbox } from 'e2b'
import { dataPaths } from '../../../src/app/data/data-folder.ts'
import { eventually } from '../../support/eventually.ts'
import { startObjectStore } from '../../support/object-store.ts'
import { noWarmPool, startWarren, testPlace, type Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { type Contender, type Row, takeTurns, timed } from '../measure.ts'
import type { Report } from '../report.ts'

const sizesMB = [10, 100, 500] as const
/** Whether the sandbox runs while its memory still arrives. */
const ways = { no: 'whole', yes: 'early' } as const

/** Only gVisor keeps memory. The server is on the same machine: the network costs nothing here. */
export async function objectStore(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const title = 'Object store: pause, upload, resume from the disk and from the store'
  if (!machine.isolations.includes('gvisor')) return { title, rows: [], targets: [] }
  const rows: Row[] = []
  const objects = await startObjectStore()
  try {
    for (const [early, way] of Object.entries(ways)) {
      const settings = {
        ...noWarmPool,
        ...objects.env,
        // Each Warren has a database of its own, and so a place of its own.
        WARREN_OBJECT_STORE: `${objects.env.WARREN_OBJECT_STORE}/${way}`,
        WARREN_SUBNET: `10.${222 - 10 * testPlace}.128.0/17`,
        WARREN_DEFAULT_MEMORY_MB: '4096',
        WARREN_EARLY_RESUMES: early,
      }
      const warren = await startWarren('gvisor', { name: 'bench-objects', portOffset: 53, settings })
      try {
        for (const usedMB of sizesMB) {
          const options = { rounds: Math.min(rounds, 3), warmUps: 0, pauseMs: 500, signal: machine.signal }
          rows.push(...(await takeTurns([contender(warren, usedMB, way)], options)))
        }
      } finally {
        await warren.stop()
      }
    }
  } finally {
    await objects.close()
  }
  return { title, rows, targets: [] }
}

function contender(warren: Warren, usedMB: number, way: string): Contender {
  return {
    name: `warren gvisor, ${usedMB} MB, ${way}`,
    async sample() {
      const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000 })
      try {
        // Random, so that nothing can compress it.
        await sandbox.commands.run(`head -c ${usedMB * 1_000_000} /dev/urandom > /dev/shm/held`)
        const [pause] = await timed(() => sandbox.pause())
        const [upload] = await timed(() => uploaded(warren, sandbox))
        const [fromDisk] = await timed(() => firstCommand(sandbox))
        await sandbox.pause()
        await uploaded(warren, sandbox)
        forgetOnDisk(warren, sandbox)
        const started = performance.now()
        const [fromStore] = await timed(() => firstCommand(sandbox))
        // Reads every byte, so it waits for the rest of the memory.
        await sandbox.commands.run('cat /dev/shm/held > /dev/null', { timeoutMs: 300_000 })
        return {
          pause,
          upload,
          'first command after a resume from the disk': fromDisk,
          'first command after a resume from the store': fromStore,
          'all memory read after a resume from the store': performance.now() - started,
        }
      } finally {
        await sandbox.kill()
      }
    },
  }
}

async function firstCommand(sandbox: Sandbox): Promise<void> {
  await sandbox.connect()
  await sandbox.commands.run('true')
}

/** Only then another machine may take it, and this one may lose its copy. */
async function uploaded({ dataFolder }: Warren, { sandboxId }: Sandbox): Promise<void> {
  using database = new DatabaseSync(join(dataFolder, 'warren.db'), { readOnly: true })
  const row = database.prepare('select stored_at from sandboxes where id = ?')
  await eventually(async () => {
    const { stored_at: storedAt } = row.get(sandboxId) as { stored_at: number | null }
    if (storedAt === null) throw new Error('it is not in the store yet')
  })
}

function forgetOnDisk(warren: Warren, { sandboxId }: Sandbox): void {
  const { snapshots } = dataPaths(warren.dataFolder)
  for (const name of readdirSync(snapshots)) {
    if (name.startsWith(`${sandboxId}-`)) rmSync(join(snapshots, name), { recursive: true })
  }
}
