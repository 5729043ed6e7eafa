/**
 * Clients that use several Warrens as through a load balancer: each request goes to a door that is in service.
 * It counts requests that were open when the process of a node ended apart from all other failures.
 */
import { Sandbox } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import type { Warren } from './warren.ts'

const clients = 6
/** More than that are not waited for. */
const maxFailures = 200

type Request = { name: string; run(warren: Warren, sandboxID: string): Promise<unknown> }
/** Milliseconds of the clock. */
type Span = { from: number; to: number }
type FailedRequest = Span & { text: string }
type OpenRequest = { door: number; startedAt: number }

const requests: readonly Request[] = [
  {
    name: 'command',
    run: async ({ client }, sandboxID) => {
      const sandbox = await Sandbox.connect(sandboxID, client)
      await sandbox.commands.run('echo on')
    },
  },
  {
    name: 'file',
    run: async ({ client }, sandboxID) => {
      const sandbox = await Sandbox.connect(sandboxID, client)
      await sandbox.files.write('/tmp/load', 'written')
      if ((await sandbox.files.read('/tmp/load')) !== 'written') throw new Error('another content')
    },
  },
  {
    name: 'stream',
    run: async ({ client }, sandboxID) => {
      const sandbox = await Sandbox.connect(sandboxID, client)
      await sandbox.commands.run('for i in 1 2 3; do echo $i; sleep 1; done')
    },
  },
  { name: 'list', run: ({ client }) => Sandbox.list(client).nextItems() },
  {
    name: 'create',
    run: async ({ client }) => {
      const sandbox = await Sandbox.create({ ...client, timeoutMs: 60_000 })
      await sandbox.kill()
    },
  },
]

export class LoadOnDoors {
  readonly #doors: () => readonly Warren[]
  readonly #sandboxIDs: readonly string[]
  readonly #open = new Set<OpenRequest>()
  readonly #out = new Set<number>()
  readonly #ends: Span[] = []
  readonly #failures: FailedRequest[] = []
  readonly #work: Promise<void>[]
  #served = 0
  #count = 0
  #goesOn = true

  constructor(doors: () => readonly Warren[], sandboxIDs: readonly string[]) {
    this.#doors = doors
    this.#sandboxIDs = sandboxIDs
    this.#work = Array.from({ length: clients }, () => this.#askOn())
  }

  /** Takes a door out of service, lets its requests end, and puts it back after the work. */
  async without(door: number, work: () => Promise<void>): Promise<void> {
    this.#out.add(door)
    while ([...this.#open].some((one) => one.door === door)) await delay(20)
    await work()
    this.#out.delete(door)
  }

  /** Ends the process of a node. Requests that are open until then may fail. */
  async endProcess(stop: () => Promise<unknown>): Promise<void> {
    const from = Date.now()
    await stop()
    this.#ends.push({ from, to: Date.now() })
  }

  async untilServed(more: number): Promise<void> {
    const goal = this.#served + more
    while (this.#served < goal && this.#count < this.#served + maxFailures) await delay(50)
  }

  async stop(): Promise<{ served: number; broken: readonly string[]; failed: readonly string[] }> {
    this.#goesOn = false
    await Promise.all(this.#work)
    const isBroken = ({ from, to }: Span) => this.#ends.some((end) => from <= end.to && to >= end.from)
    const texts = (failures: readonly FailedRequest[]) => failures.map(({ text }) => text)
    return {
      served: this.#served,
      broken: texts(this.#failures.filter(isBroken)),
      failed: texts(this.#failures.filter((one) => !isBroken(one))),
    }
  }

  async #askOn(): Promise<void> {
    while (this.#goesOn) {
      const number = this.#count++
      const doors = this.#doors()
      const inService = doors.map((_, door) => door).filter((door) => !this.#out.has(door))
      const door = inService[number % inService.length]!
      const sandboxID = this.#sandboxIDs[number % this.#sandboxIDs.length]!
      const { name, run } = requests[Math.floor(number / 3) % requests.length]!
      const open = { door, startedAt: Date.now() }
      this.#open.add(open)
      try {
        await run(doors[door]!, sandboxID)
        this.#served++
      } catch (error) {
        const [from, to] = [open.startedAt, Date.now()]
        this.#failures.push({ from, to, text: `${name} at door ${door} after ${to - from} ms: ${error}` })
      } finally {
        this.#open.delete(open)
      }
    }
  }
}
