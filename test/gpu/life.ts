/** Deaths at bad moments, with memory on the card: of a process that the driver holds, and of Warren in every step. */
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'
import { errorText } from '../../src/lib/app-error.ts'
import { delay } from '../../src/lib/clock.ts'
import { assertCardEmpty, type Card, count, read, seconds, share } from './support.ts'

/** In the middle of equal parts of the time that the whole takes. */
const momentsIn = (ms: number, parts: number): number[] =>
  Array.from({ length: parts }, (_, at) => Math.round(((at + 0.5) / parts) * ms))

export async function lifeChecks(card: Card): Promise<void> {
  await card.check('16 GB on the card continue over a fork and a pause', () => largeMemory(card))
  await card.check('a process that dies while the driver moves its memory', () => dyingProcess(card))
  await card.check('kill -9 of Warren in every step of a pause', () => diesIn(card, 'pause'))
  await card.check('kill -9 of Warren in every step of a resume', () => diesIn(card, 'resume'))
  await card.check('kill -9 of Warren in every step of a fork', () => diesInFork(card))
}

/** Far more than the sandbox's own memory, through which it passes. */
async function largeMemory(card: Card): Promise<string> {
  const origin = await card.create()
  await count(origin, 'one', 16 * 1024)
  const before = await read(origin, 'one')
  const started = performance.now()
  const [fork] = await origin.fork({ timeoutMs: 3_600_000 })
  const forked = performance.now()
  if (!fork || fork instanceof Error) throw fork ?? new Error('there is no fork')
  card.track(fork)
  const staysAbove = (sandbox: Sandbox, above: number) =>
    read(sandbox, 'one', above).catch(async (error) => {
      throw new Error(`${errorText(error)}; ${await findings(card, sandbox)}`)
    })
  await staysAbove(fork, await staysAbove(fork, before))
  await fork.kill()
  const last = await staysAbove(origin, await staysAbove(origin, before))
  const begun = performance.now()
  await card.pause(origin)
  const paused = performance.now()
  const resumed = await card.resume(origin)
  const tookMs = performance.now() - paused
  await staysAbove(resumed, last)
  return `fork ${seconds(forked - started)} s, pause ${seconds(paused - begun)} s, resume ${seconds(tookMs)} s`
}

/** What a sandbox is, and which processes it has. */
async function findings(card: Card, sandbox: Sandbox): Promise<string> {
  const run = await sandbox.commands.run('ps -eo pid,stat,rss,args; grep anon /proc/meminfo; ls /dev').then(
    ({ stdout }) => stdout,
    (error) => errorText(error),
  )
  const logs = await card.ask(`/v2/sandboxes/${sandbox.sandboxId}/logs?limit=20`)
  return `${await card.stateOf(sandbox)}; ${run}; ${JSON.stringify(logs.body)}`
}

/** A second process shows that the sandbox and its other GPU memory are not harmed. */
async function dyingProcess(card: Card): Promise<string> {
  let sandbox = await card.create()
  await count(sandbox, 'other', 64)
  const seen: string[] = []
  for (const afterMs of momentsIn(1400, 7)) {
    await sandbox.files.remove('/tmp/dying').catch(() => {})
    await count(sandbox, 'dying', 1024)
    const before = await read(sandbox, 'other')
    await sandbox.commands.run(`sleep ${afterMs / 1000}; pkill -9 -f '[c]ounter.py /tmp/dying'`, {
      background: true,
      timeoutMs: 0,
    })
    const { status, body } = await card.tryPause(sandbox)
    if (status === 204) sandbox = await card.resume(sandbox)
    seen.push(`${afterMs} ms ${status === 204 ? 'paused' : (body as { message: string }).message}`)
    await read(sandbox, 'other', before)
    await sandbox.commands.run(`pkill -9 -f '[c]ounter.py /tmp/dying' || true`)
  }
  await Sandbox.kill(sandbox.sandboxId, card.client)
  await assertCardEmpty()
  return seen.join('; ')
}

async function diesIn(card: Card, verb: 'pause' | 'resume'): Promise<string> {
  let sandbox = await card.create()
  await count(sandbox, 'one', 1024)
  let last = await read(sandbox, 'one')
  const started = performance.now()
  await card.pause(sandbox)
  const paused = performance.now()
  sandbox = await card.resume(sandbox)
  const tookMs = verb === 'pause' ? paused - started : performance.now() - paused
  const seen: string[] = []
  for (const afterMs of momentsIn(tookMs, 7)) {
    last = await read(sandbox, 'one', last)
    if (verb === 'resume') await card.pause(sandbox)
    const request = (verb === 'pause' ? card.tryPause(sandbox) : card.resume(sandbox)).catch(() => undefined)
    await delay(afterMs)
    await card.restart()
    await request
    const state = await card.stateOf(sandbox)
    seen.push(`${afterMs} ms ${state}`)
    const begun = performance.now()
    sandbox = await card.resume(sandbox).catch((error) => {
      throw new Error(`killed after ${seen.join(', ')}, which cannot go on: ${error.message}`)
    })
    last = await read(sandbox, 'one', last).catch((error) => {
      throw new Error(`killed after ${seen.join(', ')}: ${error.message}`)
    })
    seen.push(`(back in ${seconds(performance.now() - begun)} s)`)
  }
  await Sandbox.kill(sandbox.sandboxId, card.client)
  await assertNothingReserved(card)
  return `it takes ${tookMs.toFixed(0)} ms; killed after ${seen.join(' ')}`
}

async function diesInFork(card: Card): Promise<string> {
  const origin = await card.create()
  await count(origin, 'one', 512)
  const fork = async () => {
    const [made] = await origin.fork({ timeoutMs: 3_600_000 })
    if (!made || made instanceof Error) throw made ?? new Error('there is no fork')
    return made
  }
  const started = performance.now()
  await Sandbox.kill((await fork()).sandboxId, card.client)
  const tookMs = performance.now() - started
  const seen: string[] = []
  for (const afterMs of momentsIn(tookMs, 6)) {
    const before = await read(origin, 'one')
    const request = fork().catch(() => undefined)
    await delay(afterMs)
    await card.restart()
    await request
    const running = await Sandbox.list(card.client).nextItems()
    const others = running.filter(({ sandboxId }) => sandboxId !== origin.sandboxId)
    seen.push(`${afterMs} ms: ${await card.stateOf(origin)}, ${others.length} forks`)
    await read(await card.resume(origin), 'one', before)
    for (const { sandboxId } of others) {
      await read(await Sandbox.connect(sandboxId, card.client), 'one', before)
      await Sandbox.kill(sandboxId, card.client)
    }
  }
  await Sandbox.kill(origin.sandboxId, card.client)
  await assertNothingReserved(card)
  return `it takes ${tookMs.toFixed(0)} ms; ${seen.join('; ')}`
}

/** Neither memory of the card, nor a share of it in Warren's books. */
async function assertNothingReserved(card: Card): Promise<void> {
  await assertCardEmpty()
  const made = await Promise.all(Array.from({ length: share }, () => card.create()))
  assert.equal(made.length, share)
  for (const { sandboxId } of made) await Sandbox.kill(sandboxId, card.client)
}
