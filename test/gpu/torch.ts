/** PyTorch in sandboxes, where the base template has it: `run-on-card` puts the machine's own into it. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Sandbox as Interpreter } from '@e2b/code-interpreter'
import type { Sandbox } from 'e2b'
import { writeInterpreter } from '../../src/app/templates/interpreter-files.ts'
import { delay } from '../../src/lib/clock.ts'
import { type Card, file, Skipped, seconds } from './support.ts'

/** Inside: where PyTorch and IPython lie, for the Python of the base template. */
const pythonPath = process.env.WARREN_CARD_PYTHONPATH ?? ''
const envs = { PYTHONPATH: pythonPath }
const kernelsFolder = '/opt/code-interpreter'

export async function torchChecks(card: Card): Promise<void> {
  await card.check('a fork of three from a loaded PyTorch model, each giving the same next value', () =>
    fork(card),
  )
  await card.check('a kernel of the code interpreter keeps its model on the GPU over a pause', () =>
    kernel(card),
  )
}

async function assertHas(sandbox: Sandbox, command: string, what: string): Promise<void> {
  const { exitCode, stderr } = await sandbox.commands
    .run(command, { envs, timeoutMs: 120_000 })
    .catch((error) => error as { exitCode: number; stderr: string })
  if (exitCode !== 0)
    throw new Skipped(`the base template has no ${what}: ${stderr?.trim().split('\n').at(-1)}`)
}

async function fork(card: Card): Promise<string> {
  const origin = await card.create()
  await assertHas(origin, 'python3 -c "import torch"', 'PyTorch')
  await origin.files.write('/tmp/model.py', file('model.py'))
  await origin.commands.run('python3 -u /tmp/model.py > /tmp/model.log 2>&1', {
    envs,
    background: true,
    timeoutMs: 0,
  })
  const first = await nextValue(origin)
  const started = performance.now()
  const forks = (await origin.fork({ count: 3, timeoutMs: 3_600_000 })).map((one) => {
    if (one instanceof Error) throw one
    return card.track(one)
  })
  const duration = seconds(performance.now() - started)
  const values = await Promise.all([origin, ...forks].map(nextValue))
  assert.notEqual(values[0], first)
  assert.deepEqual(new Set(values), new Set([values[0]]), values.join(', '))
  await card.pause(origin)
  await nextValue(await card.resume(origin))
  return `${duration} s; each gives ${values[0]}`
}

/** Has the model compute once more. */
async function nextValue(sandbox: Sandbox): Promise<string> {
  await sandbox.files.remove('/tmp/value').catch(() => {})
  await sandbox.files.write('/tmp/next', '')
  for (let attempt = 0; attempt < 2400; attempt++) {
    const value = await sandbox.files.read('/tmp/value').catch(() => '')
    if (value !== '') return value
    await delay(50)
  }
  throw new Error(`the model gives no value: ${await sandbox.files.read('/tmp/model.log').catch(() => '')}`)
}

const loadModel = `import torch
model = torch.nn.Linear(16384, 16384, bias=False, device='cuda')
x = torch.ones(16384, device='cuda')
torch.cuda.memory_allocated() >= 2**30`
const nextCell = `with torch.no_grad(): x = torch.tanh(model(x)) + 0.01 * torch.randn_like(x)
x.double().sum().item()`

async function kernel(card: Card): Promise<string> {
  const origin = await card.create()
  await assertHas(origin, 'python3 -c "import torch, IPython"', 'PyTorch with IPython')
  await assertHas(origin, 'node --version', 'Node')
  await installInterpreter(origin)
  await origin.commands.run(`bash ${kernelsFolder}/serve.sh > /tmp/interpreter.log 2>&1`, {
    envs,
    user: 'root',
    background: true,
    timeoutMs: 0,
  })
  await untilServes(origin)
  const interpreter = () => Interpreter.connect(origin.sandboxId, card.client)
  const run = async (sandbox: Interpreter, code: string) => {
    const { text, error } = await sandbox.runCode(code, { envs, timeoutMs: 180_000 })
    if (error) throw new Error(`${error.name}: ${error.value}`)
    return text
  }
  const sandbox = await interpreter()
  assert.equal(await run(sandbox, loadModel), 'True')
  await run(sandbox, nextCell)
  const started = performance.now()
  const [copy] = await origin.fork({ timeoutMs: 3_600_000 })
  if (!copy || copy instanceof Error) throw copy ?? new Error('there is no fork')
  card.track(copy)
  const forked = performance.now()
  await card.pause(origin)
  const paused = performance.now()
  const again = await interpreter()
  const resumed = performance.now()
  const value = await run(again, nextCell)
  assert.equal(await run(await Interpreter.connect(copy.sandboxId, card.client), nextCell), value)
  const [fork, pause, resume] = [forked - started, paused - forked, resumed - paused].map(seconds)
  return `fork ${fork} s, pause ${pause} s, resume ${resume} s; kernel and fork give ${value}`
}

/** By Python: the base template of a machine without a network has no curl that starts. */
const askHealth = `python3 -c "import urllib.request as r; r.urlopen('http://127.0.0.1:49999/health', timeout=1)"`

async function untilServes(sandbox: Sandbox): Promise<void> {
  const command = `for _ in $(seq 300); do ${askHealth} 2>/tmp/health.log && exit 0; sleep 0.1; done; exit 1`
  await sandbox.commands.run(command, { timeoutMs: 120_000 }).catch(async (error) => {
    const { stdout } = await sandbox.commands.run('tail -n 20 /tmp/health.log /tmp/interpreter.log')
    throw new Error(`the code interpreter does not serve: ${stdout}`, { cause: error })
  })
}

async function installInterpreter(sandbox: Sandbox): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'warren-card-'))
  try {
    await writeInterpreter(join(folder, 'interpreter'))
    const entries = readdirSync(join(folder, 'interpreter'), { recursive: true, withFileTypes: true })
    for (const entry of entries.filter((one) => one.isFile())) {
      const path = join(entry.parentPath, entry.name)
      const target = `${kernelsFolder}/${path.slice(join(folder, 'interpreter').length + 1)}`
      await sandbox.files.write(target, readFileSync(path, 'utf8'), { user: 'root' })
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}
