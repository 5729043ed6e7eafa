/**
 * A developer runs `npm start` in one shell and `npm test` in another. So a Warren with the default port and network runs here,
 * in a network namespace where both are free, and beside it what tests do on a machine: the doctor, and a Warren of their own.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Sandbox } from 'e2b'
import { loadConfig } from '../../src/app/config/config.ts'
import { type MachineNetwork, makeMachineNetwork, type TestMachine } from '../support/machine-network.ts'
import { anyIsolation, noWarmPool, startWarren, type Warren } from '../support/warren.ts'
import { runCommandLine } from '../support/warren-command.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-beside-'))
const { port, subnet } = loadConfig({})
let network: MachineNetwork
let machine: TestMachine
let warren: Warren

before(async () => {
  network = await makeMachineNetwork(anyIsolation)
  machine = await network.addMachine(0)
  warren = await startWarren(anyIsolation, {
    name: 'default-port',
    machine,
    settings: { ...noWarmPool, WARREN_PORT: String(port), WARREN_SUBNET: subnet },
  })
})
after(async () => {
  await warren?.stop()
  await network?.remove()
  rmSync(folder, { recursive: true, force: true })
})

test('the doctor finds nothing wrong with a machine on which a Warren has the default port', async () => {
  for (const dataFolder of [warren.dataFolder, folder]) {
    const { namespace } = machine
    const ended = await runCommandLine({ WARREN_DATA_DIR: dataFolder }, ['doctor'], { namespace })
    assert.equal(ended.code, 0, ended.out + ended.error)
    const holder = `the Warren of ${warren.dataFolder} (process ${warren.pid})`
    assert.ok(ended.out.includes(`127.0.0.1:${port} is held by ${holder}, which is fine`), ended.out)
  }
})

test('a Warren with a port and a network of its own starts beside it, and its sandboxes answer', async (context) => {
  const settings = { ...noWarmPool, WARREN_HOST: '0.0.0.0' }
  const second = await startWarren(anyIsolation, { name: 'beside', machine, settings })
  context.after(() => second.stop())
  const sandbox = await Sandbox.create(second.client)
  assert.equal((await sandbox.commands.run('echo beside')).stdout, 'beside\n')
  await sandbox.kill()
})

test('a start on its port is rejected, and says which Warren has the port', async () => {
  const { namespace } = machine
  const ended = await runCommandLine({ WARREN_DATA_DIR: folder }, ['start'], { namespace })
  assert.equal(ended.code, 1)
  assert.match(
    ended.error,
    new RegExp(`^Port ${port} is taken by the Warren of ${warren.dataFolder} .*WARREN_PORT=`),
  )
})
