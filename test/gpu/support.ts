/**
 * What the checks on a card share: a Warren of their own that gives its sandboxes the GPU, the client, and a program that
 * counts on the card beside memory with a known pattern.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Sandbox } from 'e2b'
import { errorText } from '../../src/lib/app-error.ts'
import { delay } from '../../src/lib/clock.ts'
import { startWarren, type Warren } from '../support/warren.ts'

/** So many sandboxes may have the card at once: forks need it. */
export const share = 4
const settings: Record<string, string> = {
  WARREN_GPUS: 'all',
  WARREN_GPU_SHARE: String(share),
  WARREN_START_WAIT_SECONDS: '5',
  WARREN_WARM_SANDBOXES: '0',
  WARREN_GVISOR_PLATFORM: 'systrap',
  WARREN_DEFAULT_CPU: '4',
  // PyTorch needs some of it.
  WARREN_DEFAULT_MEMORY_MB: process.env.WARREN_CARD_MEMORY_MB ?? '8192',
  ...(process.env.WARREN_BASE_IMAGE && { WARREN_BASE_IMAGE: process.env.WARREN_BASE_IMAGE }),
}
const name = 'card'

export class Skipped extends Error {}

export const seconds = (ms: number): string => (ms / 1000).toFixed(2)

export const file = (path: string): string => readFileSync(join(import.meta.dirname, path), 'utf8')

export class Card {
  warren: Warren
  readonly #only: RegExp | undefined
  readonly #opened: Sandbox[] = []
  readonly #outcome = { passed: 0, failed: 0, skipped: 0 }

  private constructor(warren: Warren, only: RegExp | undefined) {
    this.warren = warren
    this.#only = only
  }

  static async open(only: RegExp | undefined): Promise<Card> {
    return new Card(await startWarren('gvisor', { name, settings }), only)
  }

  /** Ends it without a word, and starts the next one on what it has left. */
  async restart(): Promise<void> {
    await this.warren.crash()
    this.warren = await startWarren('gvisor', { name, settings, keepData: true })
  }

  /** Prints one line. What the check has opened is killed after it. */
  async check(name: string, work: () => Promise<unknown>): Promise<void> {
    if (this.#only && !this.#only.test(name)) return
    const started = performance.now()
    const report = (verdict: string, note: unknown) =>
      say(
        `${verdict} ${name} (${seconds(performance.now() - started)} s)${typeof note === 'string' ? `: ${note}` : ''}`,
      )
    try {
      const note = await work()
      this.#outcome.passed++
      report('ok   ', note)
    } catch (error) {
      if (error instanceof Skipped) {
        this.#outcome.skipped++
        report('skip ', error.message)
      } else {
        this.#outcome.failed++
        report('FAIL ', errorText(error).slice(0, 8000))
      }
    }
    for (const sandbox of this.#opened.splice(0)) {
      await Sandbox.kill(sandbox.sandboxId, this.warren.client).catch(() => {})
    }
  }

  /** Prints the sum, and says how the process should end. */
  async close(): Promise<number> {
    await this.warren.stop()
    const { passed, failed, skipped } = this.#outcome
    say(`${passed} passed, ${failed} failed, ${skipped} skipped`)
    return failed === 0 ? 0 : 1
  }

  get client() {
    return { ...this.warren.client, timeoutMs: 3_600_000 }
  }

  track<T extends Sandbox>(sandbox: T): T {
    this.#opened.push(sandbox)
    return sandbox
  }

  async create(gpus = 1): Promise<Sandbox> {
    const metadata = { 'warren.gpus': String(gpus) }
    const sandbox = this.track(await Sandbox.create('base', { ...this.client, metadata }))
    for (const script of ['counter.py', 'leftovers.py'])
      await sandbox.files.write(`/tmp/${script}`, file(script))
    return sandbox
  }

  async ask(path: string, body?: object): Promise<{ status: number; body: unknown }> {
    const answer = await this.warren.api(path, body && { body })
    const text = await answer.text()
    return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
  }

  tryPause = ({ sandboxId }: Sandbox) => this.ask(`/sandboxes/${sandboxId}/pause`, {})

  async pause(sandbox: Sandbox): Promise<void> {
    const { status, body } = await this.tryPause(sandbox)
    assert.equal(status, 204, JSON.stringify(body))
  }

  resume = ({ sandboxId }: Sandbox): Promise<Sandbox> => Sandbox.connect(sandboxId, this.client)

  async stateOf({ sandboxId }: Sandbox): Promise<string> {
    const { status, body } = await this.ask(`/sandboxes/${sandboxId}`)
    return status === 200 ? (body as { state: string }).state : `gone (${status})`
  }
}

export const say = (text: string): void => void process.stdout.write(`${text}\n`)

export const usedMiB = (): number =>
  Number(
    execFileSync('nvidia-smi', ['--query-gpu=memory.used', '--format=csv,noheader,nounits'], {
      encoding: 'utf8',
    }),
  )

/** The driver gives memory back a moment after the last process has ended. */
export async function assertCardEmpty(): Promise<void> {
  for (let attempt = 0; usedMiB() >= 200 && attempt < 50; attempt++) await delay(100)
  assert.ok(usedMiB() < 200, `${usedMiB()} MiB of the card are still in use`)
}

export async function count(sandbox: Sandbox, name: string, megabytes: number, busy = false): Promise<void> {
  const words = ['python3', '/tmp/counter.py', `/tmp/${name}`, String(megabytes), ...(busy ? ['busy'] : [])]
  await sandbox.commands.run(words.join(' '), { background: true, timeoutMs: 0 })
  await read(sandbox, name)
}

/** The counter, which must go on, beside memory that must be whole. */
export async function read(sandbox: Sandbox, name: string, above = 0): Promise<number> {
  for (let attempt = 0; attempt < 600; attempt++) {
    const text = await sandbox.files.read(`/tmp/${name}`).catch(() => '')
    if (text.startsWith('failed')) throw new Error(text)
    const [value = '', whole] = text.split(' ')
    if (Number(value) > above) {
      assert.equal(whole, 'True', `the memory of ${name} changed`)
      return Number(value)
    }
    await delay(50)
  }
  throw new Error(`${name} does not count beyond ${above}`)
}
