/**
 * Clients of a cluster: sandboxes in each of which a process counts in memory, and a constant light load of creates and
 * commands, whose errors are counted. Uses the unmodified client, which is set up by E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY.
 */
import assert from 'node:assert/strict'
import { subscribe } from 'node:diagnostics_channel'
import { setTimeout as delay } from 'node:timers/promises'
import { Sandbox } from 'e2b'

/** The token is made by the process and is only in its memory. The file is removed before it is read, so it comes from a live process. */
const counter = `import os, time
token = os.urandom(8).hex()
count = 0
while True:
    count += 1
    with open('/tmp/partial', 'w') as file: file.write(f'{os.getpid()} {token} {count}')
    os.rename('/tmp/partial', '/tmp/count')
    time.sleep(0.1)
`
const hourMs = 3_600_000

type Count = { pid: string; token: string; count: number }
export type Counting = { sandbox: Sandbox; first: Count }

export async function startCounting(): Promise<Counting> {
  const sandbox = await Sandbox.create({ timeoutMs: hourMs })
  await sandbox.files.write('/tmp/counter.py', counter)
  await sandbox.commands.run('exec python3 /tmp/counter.py', { background: true, timeoutMs: 0 })
  return { sandbox, first: await readCount(sandbox) }
}

async function readCount(sandbox: Sandbox): Promise<Count> {
  const script = 'rm -f /tmp/count; until [ -e /tmp/count ]; do sleep 0.05; done; cat /tmp/count'
  const { stdout } = await sandbox.commands.run(script, { timeoutMs: 60_000 })
  const [pid = '', token = '', count = ''] = stdout.split(' ')
  return { pid, token, count: Number(count) }
}

/** The same process has gone on counting. */
export async function checkCounting({ sandbox, first }: Counting): Promise<void> {
  const now = await readCount(sandbox)
  assert.deepEqual([now.pid, now.token], [first.pid, first.token], sandbox.sandboxId)
  assert.ok(now.count > first.count, `${sandbox.sandboxId}: ${now.count} after ${first.count}`)
}

type Operation = 'create' | 'first command' | 'kill' | 'command'
type Done = { at: number; operation: Operation; tookMs: number; error: string | undefined }

/** Every two seconds a sandbox is created, used and killed, and by default five times a second a command runs in one of those that count. */
export class Load {
  readonly #counting: readonly Counting[]
  readonly #done: Done[] = []
  readonly #underWay = new Set<Promise<void>>()
  readonly #startedAt = Date.now()
  /** What the client's HTTP library says; the client itself reports some of it as "fetch failed". */
  readonly #connectionErrors: string[] = []
  #ended = false

  constructor(counting: readonly Counting[], commandEveryMs = 200) {
    this.#counting = counting
    this.#repeat(2000, () => this.#createAndKill())
    for (const channel of ['undici:request:error', 'undici:client:connectError']) {
      subscribe(channel, (message) => {
        const { code, message: text } = (message as { error: Error & { code?: string } }).error
        this.#connectionErrors.push(`${channel} ${code ?? ''} ${text}`)
      })
    }
    let next = 0
    this.#repeat(commandEveryMs, async () => {
      const { sandbox } = this.#counting[next++ % this.#counting.length]!
      await this.#measure('command', () => sandbox.commands.run('echo here', { timeoutMs: 60_000 }))
    })
  }

  /** Waits for the operations under way. */
  async end(): Promise<void> {
    this.#ended = true
    await Promise.all(this.#underWay)
  }

  report(): string {
    const lines = Object.entries(Object.groupBy(this.#done, ({ operation }) => operation)).map(
      ([operation, all]) => {
        const times = all.filter(({ error }) => error === undefined).map(({ tookMs }) => tookMs)
        times.sort((one, other) => one - other)
        const median = times[Math.floor(times.length / 2)] ?? Number.NaN
        const failed = all.length - times.length
        return `${operation}: ${all.length} done, ${failed} failed; median ${median} ms, longest ${times.at(-1)} ms`
      },
    )
    const errors = this.#done.filter(({ error }) => error !== undefined)
    for (const [error, all] of Object.entries(
      Object.groupBy(errors, ({ operation, error }) => `${operation}: ${error}`),
    )) {
      const toSeconds = (ms: number) => (ms / 1000).toFixed(1)
      const spans = all!.map(
        ({ at, tookMs }) => `${toSeconds(at - this.#startedAt)} for ${toSeconds(tookMs)}`,
      )
      lines.push(`  ${all!.length} x ${error} (begun at ${spans.join(', ')} s)`)
    }
    for (const [error, all] of Object.entries(Object.groupBy(this.#connectionErrors, (one) => one))) {
      lines.push(`  connections: ${all!.length} x ${error}`)
    }
    return lines.join('\n')
  }

  #repeat(everyMs: number, run: () => Promise<void>): void {
    const timer = setInterval(() => {
      if (this.#ended) return clearInterval(timer)
      // A slow cluster gets no more than this, as from clients that wait for their answers.
      if (this.#underWay.size >= 60) return
      const work = run().finally(() => this.#underWay.delete(work))
      this.#underWay.add(work)
    }, everyMs)
  }

  async #createAndKill(): Promise<void> {
    const sandbox = await this.#measure('create', () => Sandbox.create({ timeoutMs: 120_000 }))
    if (!sandbox) return
    await this.#measure('first command', () => sandbox.commands.run('echo here', { timeoutMs: 60_000 }))
    await this.#measure('kill', () => sandbox.kill())
  }

  async #measure<T>(operation: Operation, run: () => Promise<T>): Promise<T | undefined> {
    const at = Date.now()
    let error: string | undefined
    try {
      return await run()
    } catch (thrown) {
      error = describe(thrown)
    } finally {
      this.#done.push({ at, operation, tookMs: Date.now() - at, error })
    }
  }
}

function describe(thrown: unknown): string {
  const { name, message, cause } = thrown as Error
  const short = message
    .replace(/\s+/g, ' ')
    .replace(/\b[a-z0-9]{16,32}\b/g, 'ID')
    .slice(0, 300)
  return `${name}: ${short}${cause instanceof Error ? ` (${cause.message.slice(0, 100)})` : ''}`
}

export const seconds = (count: number): Promise<void> => delay(count * 1000)
