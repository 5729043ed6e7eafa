/**
 * Attacks from inside of a sandbox with a GPU. Calls that nvproxy lets through reach the driver of the machine, so a flaw there
 * may hang the card for everybody who uses the machine. They run only where WARREN_CARD_HOSTILE=yes says that this is fine.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { Sandbox } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { assertCardEmpty, type Card, count, file, read, Skipped, seconds } from './support.ts'

const fuzzSeconds = Number(process.env.WARREN_CARD_FUZZ_SECONDS ?? 60)

export async function hostileChecks(card: Card): Promise<void> {
  await card.check('calls of the devices with random arguments harm nobody else', () => fuzz(card))
  await card.check('work on the card that never ends makes a pause fail, and a kill ends it', () =>
    hang(card),
  )
}

function assertAllowed(): void {
  if (process.env.WARREN_CARD_HOSTILE !== 'yes')
    throw new Skipped('it may hang the card of this machine; WARREN_CARD_HOSTILE=yes runs it')
}

async function fuzz(card: Card): Promise<string> {
  assertAllowed()
  const [attacker, bystander] = [await card.create(), await card.create()]
  await count(bystander, 'one', 256)
  await attacker.files.write('/tmp/fuzz.py', file('fuzz.py'))
  const seed = Date.now() % 1_000_000
  const runs = await Promise.all(
    (['user', 'root'] as const).map((user, at) =>
      attacker.commands
        .run(`python3 /tmp/fuzz.py ${fuzzSeconds} ${seed + at}`, {
          user,
          timeoutMs: (fuzzSeconds + 60) * 1000,
        })
        .then(
          ({ stdout }) => `${user}: ${stdout.trim()}`,
          // A sandbox that harms only itself is no finding.
          (error: Error) => `${user}: seed ${seed + at}, it ended early: ${error.message.slice(0, 200)}`,
        ),
    ),
  )
  await read(bystander, 'one', await read(bystander, 'one'))
  assert.match(execFileSync('nvidia-smi', ['-L'], { encoding: 'utf8', timeout: 30_000 }), /^GPU 0/)
  await Sandbox.kill(attacker.sandboxId, card.client)
  const next = await card.create()
  await count(next, 'two', 64)
  return `${runs.join('; ')}; the attacker is ${await card.stateOf(attacker)}`
}

async function hang(card: Card): Promise<string> {
  assertAllowed()
  const [sandbox, bystander] = [await card.create(), await card.create()]
  await count(bystander, 'one', 64)
  await sandbox.files.write('/tmp/hang.py', file('hang.py'))
  await sandbox.commands.run('python3 /tmp/hang.py /tmp/hangs', { background: true, timeoutMs: 0 })
  for (let attempt = 0; !(await sandbox.files.exists('/tmp/hangs')); attempt++) {
    assert.ok(attempt < 300, 'the endless work does not begin')
    await delay(100)
  }
  const started = performance.now()
  const { status, body } = await card.tryPause(sandbox)
  const duration = seconds(performance.now() - started)
  assert.notEqual(status, 204)
  assert.equal(await card.stateOf(sandbox), 'running')
  await Sandbox.kill(sandbox.sandboxId, card.client)
  await read(bystander, 'one', await read(bystander, 'one'))
  await Sandbox.kill(bystander.sandboxId, card.client)
  await assertCardEmpty()
  return `the pause failed after ${duration} s: ${(body as { message: string }).message}`
}
