/** Starts on the data folder of a Warren that was killed: a zombie does not run any more, and a start that fails ends. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { after, before, test } from 'node:test'
import { createLayout, instanceOf } from '../../src/drivers/host/record/layout.ts'
import { processStart } from '../../src/lib/process-start.ts'
import {
  anyIsolation,
  dataFolderOf,
  noWarmPool,
  portOf,
  seat,
  startWarren,
  subnetOf,
} from '../support/warren.ts'
import { codeOf, startCommand } from '../support/warren-command.ts'

const name = 'killed'
const dataFolder = dataFolderOf(anyIsolation, name)
const { owner } = createLayout(dataFolder, instanceOf(dataFolder))

before(async () => void (await (await startWarren(anyIsolation, { name, settings: noWarmPool })).stop()))
after(() => rmSync(owner, { force: true }))

/** What a Warren writes while it starts sandboxes; a killed one leaves it behind. */
function writeOwner(pid: number, start: string): void {
  mkdirSync(dirname(owner), { recursive: true })
  writeFileSync(owner, `${pid} ${start}`)
}

test('a start that fails after the set-up of the machine ends by itself and says why', {
  timeout: 120_000,
}, async (context) => {
  writeOwner(process.pid, processStart(process.pid)!)
  const settings = {
    ...noWarmPool,
    WARREN_DATA_DIR: dataFolder,
    WARREN_PORT: String(portOf(anyIsolation, seat)),
    WARREN_SUBNET: subnetOf(anyIsolation, seat),
    WARREN_ISOLATION: anyIsolation,
  }
  const child = startCommand(settings, ['start'])
  context.after(() => child.kill('SIGKILL'))
  let printed = ''
  child.stderr.on('data', (chunk) => {
    printed += chunk
  })
  assert.equal(await codeOf(child), 1, printed)
  assert.match(printed, new RegExp(`Process ${process.pid} already runs sandboxes in this data folder`))
})

test('a killed Warren that nobody has reaped does not keep the next one from starting', async (context) => {
  const program = `
import os, sys
child = os.fork()
if child == 0: os.kill(os.getpid(), 9)
print(child, flush=True)
sys.stdin.read()`
  const parent = spawn('python3', ['-c', program], { stdio: ['pipe', 'pipe', 'inherit'] })
  context.after(() => parent.kill('SIGKILL'))
  const pid = Number((await once(parent.stdout, 'data'))[0])
  writeOwner(pid, readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')[21]!)
  const warren = await startWarren(anyIsolation, { name, keepData: true, settings: noWarmPool })
  assert.equal(await warren.stop(), 0)
})
