/**
 * A cluster that is not real over one real PostgreSQL. The doors, which get the requests, are in this process, and the
 * other nodes in processes of their own, as on other machines: one process for all of them would be measured instead.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { type DoneByNodes, type FakeNode, FakeNodes } from './fake-nodes.ts'
import type { NodesAnswer, NodesCall, NodesVerbs } from './fake-nodes-process.ts'

/** A server has ten connections of its own; here all nodes share forty. */
const connectionCount = 40
const maxProcesses = 4

type Sizes = { nodes: number; doors: number }

export class FakeCluster {
  readonly #doors: FakeNodes
  readonly #others: readonly NodesProcess[]

  constructor(doors: FakeNodes, others: readonly NodesProcess[]) {
    this.#doors = doors
    this.#others = others
  }

  static async open(url: string, { nodes, doors }: Sizes): Promise<FakeCluster> {
    const left = Math.max(0, nodes - doors)
    const count = Math.min(left, Math.max(1, Math.min(maxProcesses, availableParallelism()) - 1))
    const connections = Math.floor(connectionCount / (count + 1))
    const others = Array.from({ length: count }, () => new NodesProcess())
    const each = Math.ceil(left / Math.max(1, count))
    const processOf = (nodeID: string) => others[Math.floor((Number(nodeID.slice(5)) - doors) / each)]!
    // The first to open the database makes its tables.
    const near = await FakeNodes.join(
      { url, from: 0, to: Math.min(doors, nodes), connections },
      (nodeID, asked) => processOf(nodeID).call('create', { nodeID, asked }),
    )
    const range = (at: number) => ({
      url,
      from: doors + at * each,
      to: Math.min(nodes, doors + (at + 1) * each),
      connections,
    })
    await Promise.all(others.map((other, at) => other.call('join', range(at))))
    return new FakeCluster(near, others)
  }

  get doors(): readonly FakeNode[] {
    return this.#doors.nodes
  }

  async giveSignsOfLife(): Promise<void> {
    this.#doors.giveSignsOfLife()
    await Promise.all(this.#others.map((other) => other.call('giveSignsOfLife')))
  }

  async stopSignsOfLife(): Promise<void> {
    await this.#doors.stopSignsOfLife()
    await Promise.all(this.#others.map((other) => other.call('stopSignsOfLife')))
  }

  /** What all nodes have done, the doors included. */
  async done(): Promise<DoneByNodes> {
    const all = [this.#doors.done(), ...(await Promise.all(this.#others.map((other) => other.call('done'))))]
    const sum = (read: (one: DoneByNodes) => number) => all.reduce((total, one) => total + read(one), 0)
    return {
      cpuMs: sum(({ cpuMs }) => cpuMs),
      statements: {
        requests: sum(({ statements }) => statements.requests),
        'signs of life': sum(({ statements }) => statements['signs of life']),
      },
    }
  }

  /** Number of sandboxes of each node. */
  async loads(): Promise<number[]> {
    const others = await Promise.all(this.#others.map((other) => other.call('loads')))
    return [...this.#doors.loads(), ...others.flat()]
  }

  /** What was said of signs of life that failed. */
  async failures(): Promise<string[]> {
    const others = await Promise.all(this.#others.map((other) => other.call('failures')))
    return [...this.#doors.failures, ...others.flat()]
  }

  /** The id of a process of PostgreSQL, whose parent is the parent of all others. */
  async readBackendPid(): Promise<number> {
    const [row] = await this.#doors.query(sql<{ pid: number }>`select pg_backend_pid() as pid`)
    return row!.pid
  }

  /** What PostgreSQL has written to its log since it started, and how often the disk was waited for. */
  async readWal(): Promise<{ walBytes: number; walSyncs: number }> {
    const [row] = await this.#doors.query(sql<{ walBytes: number; walSyncs: number }>`
      select wal_bytes::bigint as "walBytes", wal_sync as "walSyncs" from pg_stat_wal`)
    return row!
  }

  async close(): Promise<void> {
    for (const other of this.#others) other.end()
    await this.#doors.close()
  }
}

type Waiting = { resolve: (result: never) => void; reject: (error: Error) => void }

class NodesProcess {
  readonly #child: ChildProcess = fork(join(import.meta.dirname, 'fake-nodes-process.ts'))
  readonly #waiting = new Map<number, Waiting>()
  #calls = 0

  constructor() {
    this.#child.on('message', ({ id, result, failure }: NodesAnswer) => {
      const waiting = this.#waiting.get(id)!
      this.#waiting.delete(id)
      if (failure === undefined) waiting.resolve(result as never)
      else waiting.reject(new Error(failure))
    })
    this.#child.on('exit', () => {
      for (const { reject } of this.#waiting.values())
        reject(new Error('The process of the nodes has ended.'))
    })
  }

  call<V extends keyof NodesVerbs>(
    verb: V,
    ...[given]: Parameters<NodesVerbs[V]>
  ): Promise<Awaited<ReturnType<NodesVerbs[V]>>> {
    const id = this.#calls++
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      const call: NodesCall = { id, verb, given }
      this.#child.send(call)
    })
  }

  end(): void {
    this.#child.kill()
  }
}
