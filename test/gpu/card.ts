/**
 * What needs a real GPU, against a Warren that runs on this machine with WARREN_GPUS: `test/gpu/run-on-card` starts it. Not part
 * of `npm test`, since machines of CI have no GPU. Ends with `N passed, N failed`; figures are printed as they come.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Sandbox } from 'e2b'

const [url = '', apiKey = '', only] = process.argv.slice(2)
const client = { apiKey, apiUrl: url, sandboxUrl: url, requestTimeoutMs: 300_000, timeoutMs: 3_600_000 }
const file = (name: string) => readFileSync(join(import.meta.dirname, name), 'utf8')
const outcome = { passed: 0, failed: 0 }
const say = (text: string) => process.stdout.write(`${text}\n`)
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

async function check(name: string, work: () => Promise<unknown>): Promise<void> {
  if (only !== undefined && !new RegExp(only).test(name)) return
  const started = performance.now()
  try {
    const note = await work()
    outcome.passed++
    say(`ok    ${name} (${seconds(started)} s)${typeof note === 'string' ? `: ${note}` : ''}`)
  } catch (error) {
    outcome.failed++
    say(
      `FAIL  ${name} (${seconds(started)} s): ${error instanceof Error ? error.message : error}`.slice(
        0,
        1500,
      ),
    )
  }
  for (const sandbox of opened.splice(0)) await sandbox.kill().catch(() => {})
}

const seconds = (since: number) => ((performance.now() - since) / 1000).toFixed(2)

const opened: Sandbox[] = []
async function create(gpus = 1): Promise<Sandbox> {
  const sandbox = await Sandbox.create('base', { ...client, metadata: { 'warren.gpus': String(gpus) } })
  opened.push(sandbox)
  for (const name of ['counter.py', 'leftovers.py']) await sandbox.files.write(`/tmp/${name}`, file(name))
  return sandbox
}

async function ask(path: string, body: object = {}): Promise<{ status: number; body: unknown }> {
  const answer = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'X-API-Key': apiKey, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
}

async function pause({ sandboxId }: Sandbox): Promise<void> {
  const { status, body } = await ask(`/sandboxes/${sandboxId}/pause`)
  assert.equal(status, 204, JSON.stringify(body))
}

const resume = ({ sandboxId }: Sandbox) => Sandbox.connect(sandboxId, client)

const usedMiB = () =>
  Number(
    execFileSync('nvidia-smi', ['--query-gpu=memory.used', '--format=csv,noheader,nounits'], {
      encoding: 'utf8',
    }),
  )

async function count(sandbox: Sandbox, name: string, megabytes: number, busy = false): Promise<void> {
  const words = ['python3', '/tmp/counter.py', `/tmp/${name}`, String(megabytes), ...(busy ? ['busy'] : [])]
  await sandbox.commands.run(words.join(' '), { background: true, timeoutMs: 0 })
  await read(sandbox, name)
}

/** The counter, which must go on. */
async function read(sandbox: Sandbox, name: string, above = 0): Promise<number> {
  for (let attempt = 0; attempt < 600; attempt++) {
    const text = await sandbox.files.read(`/tmp/${name}`).catch(() => '')
    if (text.startsWith('failed')) throw new Error(text)
    const [value = '', whole] = text.split(' ')
    if (Number(value) > above) {
      assert.equal(whole, 'True', `the memory of ${name} changed`)
      return Number(value)
    }
    await wait(50)
  }
  throw new Error(`${name} does not count beyond ${above}`)
}

await check('a sandbox that asks for a GPU answers nvidia-smi', async () => {
  const plain = performance.now()
  const without = await Sandbox.create('base', client)
  await without.commands.run('true')
  const plainTook = seconds(plain)
  opened.push(without)
  const started = performance.now()
  const sandbox = await Sandbox.create('base', { ...client, metadata: { 'warren.gpus': '1' } })
  opened.push(sandbox)
  const created = seconds(started)
  const { stdout } = await sandbox.commands.run('nvidia-smi -L')
  assert.match(stdout, /^GPU 0: NVIDIA/)
  return `${stdout.trim()}; create ${created} s, with nvidia-smi ${seconds(started)} s; without a GPU ${plainTook} s`
})

await check('a sandbox that does not ask for a GPU sees none', async () => {
  const sandbox = await Sandbox.create('base', client)
  opened.push(sandbox)
  const { stdout } = await sandbox.commands.run(
    // The image may have the program; without a device it finds no card.
    'ls /dev /.warren-gpu 2>/dev/null | grep -c nvidia; nvidia-smi -L > /dev/null 2>&1 && echo a card || true',
  )
  assert.equal(stdout.trim(), '0')
})

await check('a counter and 1 GB on the card continue over 20 pauses', async () => {
  let sandbox = await create()
  await count(sandbox, 'one', 1024)
  let last = await read(sandbox, 'one')
  const times: [number, number][] = []
  for (let round = 0; round < 20; round++) {
    const started = performance.now()
    await pause(sandbox)
    const paused = performance.now()
    if (round === 0) assert.ok(usedMiB() < 200, `${usedMiB()} MiB of the card are in use while it is paused`)
    const begun = performance.now()
    sandbox = await resume(sandbox)
    times.push([paused - started, performance.now() - begun])
    last = await read(sandbox, 'one', last)
  }
  const median = (at: 0 | 1) =>
    times
      .map((pair) => pair[at])
      .sort((a, b) => a - b)[10]!
      .toFixed(0)
  return `count ${last}; median pause ${median(0)} ms, resume ${median(1)} ms`
})

await check('a fork of three continues with the same GPU memory', async () => {
  const origin = await create()
  await count(origin, 'one', 256)
  const started = performance.now()
  const forks = (await origin.fork({ count: 3, timeoutMs: 3_600_000 })).map((one) => {
    if (one instanceof Error) throw one
    opened.push(one)
    return one
  })
  const took = seconds(started)
  const values = await Promise.all(forks.map((one) => read(one, 'one')))
  await Promise.all([origin, ...forks].map((one, at) => read(one, 'one', values[at - 1] ?? 0)))
  return `${took} s; counters ${values.join(', ')}`
})

await check('two processes on the card are both in the snapshot', async () => {
  let sandbox = await create()
  await count(sandbox, 'one', 128)
  await count(sandbox, 'two', 128)
  const before = [await read(sandbox, 'one'), await read(sandbox, 'two')]
  await pause(sandbox)
  sandbox = await resume(sandbox)
  await read(sandbox, 'one', before[0])
  await read(sandbox, 'two', before[1])
})

await check('a pause in the middle of a loop of launches succeeds', async () => {
  let sandbox = await create()
  await count(sandbox, 'busy', 64, true)
  for (let round = 0; round < 5; round++) {
    const before = await read(sandbox, 'busy')
    await pause(sandbox)
    sandbox = await resume(sandbox)
    await read(sandbox, 'busy', before)
  }
})

await check('programs that start and end on the card during pauses do not end the sandbox', async () => {
  let sandbox = await create()
  await count(sandbox, 'one', 64)
  const loop =
    'while true; do nvidia-smi -L; timeout 1 python3 /tmp/counter.py /tmp/short 8; done >/dev/null 2>&1'
  await sandbox.commands.run(loop, { background: true, timeoutMs: 0 })
  const refused: string[] = []
  let last = 0
  for (let round = 0; round < 10; round++) {
    const { status, body } = await ask(`/sandboxes/${sandbox.sandboxId}/pause`)
    if (status === 204) sandbox = await resume(sandbox)
    else refused.push((body as { message: string }).message)
    last = await read(sandbox, 'one', last)
  }
  return `${refused.length} of 10 pauses were rejected${refused[0] ? `, with: ${refused[0]}` : ''}`
})

await check('a snapshot becomes a template whose sandboxes start with the GPU memory', async () => {
  const sandbox = await create()
  await count(sandbox, 'one', 128)
  const before = await read(sandbox, 'one')
  const { snapshotId } = await sandbox.createSnapshot()
  const copy = await Sandbox.create(snapshotId, client)
  opened.push(copy)
  await read(copy, 'one', before)
  await copy.kill()
  await Sandbox.deleteSnapshot(snapshotId, client)
})

await check('a kill frees the card, and the next sandbox finds nothing of the earlier one', async () => {
  const sandbox = await create()
  await count(sandbox, 'one', 4096)
  const held = usedMiB()
  assert.ok(held > 4096, `${held} MiB`)
  await sandbox.kill()
  for (let attempt = 0; usedMiB() > 200 && attempt < 50; attempt++) await wait(100)
  assert.ok(usedMiB() < 200, `${usedMiB()} MiB of the card are still in use`)
  const next = await create()
  const { stdout } = await next.commands.run('python3 /tmp/leftovers.py', { timeoutMs: 240_000 })
  assert.match(stdout, /^0 of /)
  return `${held} MiB before; ${stdout.trim()} hold a word of the pattern`
})

await check(
  'a create gets 503 with a time to retry while all GPUs are in use, and 400 if it asks for too many',
  async () => {
    const share = Number(process.env.WARREN_GPU_SHARE ?? 1)
    for (let held = 0; held < share; held++) await create()
    const one = { templateID: 'base', metadata: { 'warren.gpus': '1' } }
    const full = await ask('/sandboxes', one)
    assert.equal(full.status, 503, JSON.stringify(full.body))
    const many = await ask('/sandboxes', { ...one, metadata: { 'warren.gpus': '16' } })
    assert.equal(many.status, 400, JSON.stringify(many.body))
    return `${(full.body as { message: string }).message} | ${(many.body as { message: string }).message}`
  },
)

await check('metrics show the load of the card', async () => {
  const sandbox = await create()
  await count(sandbox, 'busy', 512, true)
  await wait(12_000)
  const answer = await fetch(`${url}/sandboxes/${sandbox.sandboxId}/metrics`, {
    headers: { 'X-API-Key': apiKey },
  })
  const metrics = (await answer.json()) as { gpuUsedPct?: number; gpuMemUsed?: number }[]
  const last = metrics.at(-1)
  assert.ok((last?.gpuMemUsed ?? 0) > 512 * 2 ** 20, JSON.stringify(metrics.slice(-2)))
  return JSON.stringify(last)
})

say(`${outcome.passed} passed, ${outcome.failed} failed`)
process.exit(outcome.failed === 0 ? 0 : 1)
