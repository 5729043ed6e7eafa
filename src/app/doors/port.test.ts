import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { loadConfig } from '../config/config.ts'
import { networkChecks } from '../doctor/network-checks.ts'
import { refusePort } from './port.ts'

const checkPort = (port: number, dataFolder: string) => {
  const config = loadConfig({ WARREN_PORT: String(port), WARREN_DATA_DIR: dataFolder })
  return networkChecks.find(({ name }) => name === 'port')!.look(config)
}

function makeFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'warren-port-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A program that listens, is called `warren`, and has the file `lock` of the folder open. */
async function startListener(t: TestContext, folder: string): Promise<{ pid: number; port: number }> {
  writeFileSync(join(folder, 'lock'), '')
  const program = `
    process.title = 'warren'
    require('node:fs').openSync(${JSON.stringify(join(folder, 'lock'))}, 'a+')
    const server = require('node:net').createServer().listen(0, '127.0.0.1', () => console.log(server.address().port))`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const [printed] = await once(child.stdout, 'data')
  return { pid: child.pid!, port: Number(printed) }
}

const writeServerFile = (folder: string, pid: number) =>
  writeFileSync(
    join(folder, 'server.json'),
    JSON.stringify({ url: '', domain: null, tlsCert: null, pid, startedAt: 1 }),
  )

test('a port that a Warren of this machine has is fine for the doctor, which says whose it is', async (t) => {
  const folder = makeFolder(t)
  const { pid, port } = await startListener(t, folder)
  writeServerFile(folder, pid)
  const own = await checkPort(port, folder)
  assert.deepEqual(own, {
    status: 'ok',
    text: `127.0.0.1:${port} is held by the Warren of ${folder} (process ${pid}), which is fine`,
  })
  const other = await checkPort(port, makeFolder(t))
  assert.equal(other.status, 'ok')
  assert.match(other.text, new RegExp(`Warren of ${folder} \\(process ${pid}\\).*second.*WARREN_PORT`))
  await assert.rejects(
    refusePort('127.0.0.1', port),
    new RegExp(`Port ${port} is taken by the Warren of ${folder} \\(process ${pid}\\).*WARREN_PORT=`),
  )
})

test('a program that only looks like a Warren is a stranger, which the doctor names', async (t) => {
  const folder = makeFolder(t)
  const { pid, port } = await startListener(t, folder)
  // A Warren was here once, and its process has ended.
  for (const prepare of [() => {}, () => writeServerFile(folder, pid + 1)]) {
    prepare()
    const finding = await checkPort(port, folder)
    assert.equal(finding.status, 'fail')
    assert.match(finding.text, new RegExp(`Port ${port} is taken by warren \\(process ${pid}\\)`))
  }
})

test('a taken port is rejected with the process that has it and how to choose another', async (t) => {
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close())
  const { port } = server.address() as { port: number }
  await assert.rejects(
    refusePort('127.0.0.1', port),
    new RegExp(`Port ${port} is taken by .*process ${process.pid}.*WARREN_PORT=`),
  )
})

test('a free port is taken, and an address of another machine is refused', async () => {
  await refusePort('127.0.0.1', 0)
  await assert.rejects(refusePort('192.0.2.1', 3000), /no address 192\.0\.2\.1/)
})
