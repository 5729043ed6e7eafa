/**
 * What needs a real GPU, through the unmodified client: `test/gpu/run-on-card` starts it. Not part of `npm test`, since
 * machines of CI have no GPU. Ends with `N passed, N failed, N skipped`; figures are printed as they come.
 */
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { hostileChecks } from './hostile.ts'
import { lifeChecks } from './life.ts'
import { assertCardEmpty, Card, count, read, seconds, share, usedMiB } from './support.ts'
import { torchChecks } from './torch.ts'

const [pattern] = process.argv.slice(2)
const card = await Card.open(pattern === undefined ? undefined : new RegExp(pattern))
const check = card.check.bind(card)

await check('a sandbox that asks for a GPU answers nvidia-smi', async () => {
  const plain = performance.now()
  const without = await Sandbox.create('base', card.client)
  await without.commands.run('true')
  const plainDuration = seconds(performance.now() - plain)
  card.track(without)
  const started = performance.now()
  const sandbox = await Sandbox.create('base', { ...card.client, metadata: { 'warren.gpus': '1' } })
  card.track(sandbox)
  const created = seconds(performance.now() - started)
  const { stdout } = await sandbox.commands.run('nvidia-smi -L')
  assert.match(stdout, /^GPU 0: NVIDIA/)
  return `${stdout.trim()}; create ${created} s, with nvidia-smi ${seconds(performance.now() - started)} s; without a GPU ${plainDuration} s`
})

await check('a sandbox that does not ask for a GPU sees none', async () => {
  const sandbox = await Sandbox.create('base', card.client)
  card.track(sandbox)
  const { stdout } = await sandbox.commands.run(
    // The image may have the program; without a device it finds no card.
    'ls /dev /.warren-gpu 2>/dev/null | grep -c nvidia; nvidia-smi -L > /dev/null 2>&1 && echo a card || true',
  )
  assert.equal(stdout.trim(), '0')
})

await check('a counter and 1 GB on the card continue over 20 pauses', async () => {
  let sandbox = await card.create()
  await count(sandbox, 'one', 1024)
  let last = await read(sandbox, 'one')
  const times: [number, number][] = []
  for (let round = 0; round < 20; round++) {
    const started = performance.now()
    await card.pause(sandbox)
    const paused = performance.now()
    if (round === 0) assert.ok(usedMiB() < 200, `${usedMiB()} MiB of the card are in use while it is paused`)
    const begun = performance.now()
    sandbox = await card.resume(sandbox)
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
  const origin = await card.create()
  await count(origin, 'one', 256)
  const started = performance.now()
  const forks = (await origin.fork({ count: 3, timeoutMs: 3_600_000 })).map((one) => {
    if (one instanceof Error) throw one
    card.track(one)
    return one
  })
  const duration = seconds(performance.now() - started)
  const values = await Promise.all(forks.map((one) => read(one, 'one')))
  await Promise.all([origin, ...forks].map((one, at) => read(one, 'one', values[at - 1] ?? 0)))
  return `${duration} s; counters ${values.join(', ')}`
})

await check('two processes on the card are both in the snapshot', async () => {
  let sandbox = await card.create()
  await count(sandbox, 'one', 128)
  await count(sandbox, 'two', 128)
  const before = [await read(sandbox, 'one'), await read(sandbox, 'two')]
  await card.pause(sandbox)
  sandbox = await card.resume(sandbox)
  await read(sandbox, 'one', before[0])
  await read(sandbox, 'two', before[1])
})

await check('a pause in the middle of a loop of launches succeeds', async () => {
  let sandbox = await card.create()
  await count(sandbox, 'busy', 64, true)
  for (let round = 0; round < 5; round++) {
    const before = await read(sandbox, 'busy')
    await card.pause(sandbox)
    sandbox = await card.resume(sandbox)
    await read(sandbox, 'busy', before)
  }
})

await check('programs that start and end on the card during pauses do not end the sandbox', async () => {
  let sandbox = await card.create()
  await count(sandbox, 'one', 64)
  const loop =
    'while true; do nvidia-smi -L; timeout 1 python3 /tmp/counter.py /tmp/short 8; done >/dev/null 2>&1'
  await sandbox.commands.run(loop, { background: true, timeoutMs: 0 })
  const refused: string[] = []
  let last = 0
  for (let round = 0; round < 10; round++) {
    const { status, body } = await card.tryPause(sandbox)
    if (status === 204) sandbox = await card.resume(sandbox)
    else refused.push((body as { message: string }).message)
    last = await read(sandbox, 'one', last)
  }
  return `${refused.length} of 10 pauses were rejected${refused[0] ? `, with: ${refused[0]}` : ''}`
})

await check('a snapshot becomes a template whose sandboxes start with the GPU memory', async () => {
  const sandbox = await card.create()
  await count(sandbox, 'one', 128)
  const before = await read(sandbox, 'one')
  const { snapshotId } = await sandbox.createSnapshot()
  const copy = await Sandbox.create(snapshotId, card.client)
  card.track(copy)
  await read(copy, 'one', before)
  await copy.kill()
  await Sandbox.deleteSnapshot(snapshotId, card.client)
})

await check('a kill frees the card, and the next sandbox finds nothing of the earlier one', async () => {
  const sandbox = await card.create()
  await count(sandbox, 'one', 4096)
  const usedBefore = usedMiB()
  assert.ok(usedBefore > 4096, `${usedBefore} MiB`)
  await sandbox.kill()
  await assertCardEmpty()
  const next = await card.create()
  const { stdout } = await next.commands.run('python3 /tmp/leftovers.py', { timeoutMs: 240_000 })
  assert.match(stdout, /^0 of /)
  return `${usedBefore} MiB before; ${stdout.trim()} hold a word of the pattern`
})

await check('a create gets 503 while all GPUs are in use, and 400 if it asks for too many', async () => {
  for (let made = 0; made < share; made++) await card.create()
  const one = { templateID: 'base', metadata: { 'warren.gpus': '1' } }
  const full = await card.ask('/sandboxes', one)
  assert.equal(full.status, 503, JSON.stringify(full.body))
  const many = await card.ask('/sandboxes', { ...one, metadata: { 'warren.gpus': '16' } })
  assert.equal(many.status, 400, JSON.stringify(many.body))
  return `${(full.body as { message: string }).message} | ${(many.body as { message: string }).message}`
})

await check('metrics show the load of the card', async () => {
  const sandbox = await card.create()
  await count(sandbox, 'busy', 512, true)
  await delay(12_000)
  const answer = await card.ask(`/sandboxes/${sandbox.sandboxId}/metrics`)
  const metrics = answer.body as { gpuUsedPct?: number; gpuMemUsed?: number }[]
  const last = metrics.at(-1)
  assert.ok((last?.gpuMemUsed ?? 0) > 512 * 2 ** 20, JSON.stringify(metrics.slice(-2)))
  return JSON.stringify(last)
})

await lifeChecks(card)
await torchChecks(card)
await hostileChecks(card)
process.exit(await card.close())
