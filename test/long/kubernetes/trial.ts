/**
 * `trial.ts PHASE...`: uses Warren on the cluster of cluster.sh, and prints what clients saw. `cluster.sh trial` starts it in the hub.
 * A phase fails if a sandbox has not gone on with its memory; errors of the load are only counted.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Sandbox } from 'e2b'
import { eventually } from '../../support/eventually.ts'
import { type Counting, checkCounting, Load, seconds, startCounting } from './load.ts'

const run = promisify(execFile)
const cluster = join(import.meta.dirname, 'cluster.sh')
/** The sandboxes that count, for the next start. */
const savedPath = process.env.TRIAL_FILE ?? 'counting.json'
const namespace = ['--namespace', 'warren']
const startedAt = Date.now()

function log(text: string): void {
  console.log(`[${((Date.now() - startedAt) / 1000).toFixed(1)} s] ${text}`)
}

async function kube(...words: string[]): Promise<string> {
  return (await run(cluster, ['kube', ...words])).stdout.trim()
}

type Pod = { name: string; node: string; ready: boolean; ending: boolean }

type PodObject = {
  metadata: { name: string; deletionTimestamp?: string }
  spec: { nodeName: string }
  status: { conditions?: { type: string; status: string }[] }
}

async function list<T>(...words: string[]): Promise<T[]> {
  return (JSON.parse(await kube(...namespace, 'get', ...words, '-o', 'json')) as { items: T[] }).items
}

async function listPods(): Promise<Pod[]> {
  const items = await list<PodObject>('pods', '-l', 'app.kubernetes.io/name=warren')
  return items.map(({ metadata, spec, status }) => ({
    name: metadata.name,
    node: spec.nodeName,
    ready: (status.conditions ?? []).some((one) => one.type === 'Ready' && one.status === 'True'),
    ending: metadata.deletionTimestamp !== undefined,
  }))
}

/** Warren's own command line, in a pod of another node than the given one. */
async function warren(notOn: string, ...words: string[]): Promise<string> {
  const pod = (await listPods()).find(({ node, ready, ending }) => node !== notOn && ready && !ending)
  assert.ok(pod, 'no pod is ready')
  return kube(...namespace, 'exec', pod.name, '--', '/opt/warren/bin/warren', ...words)
}

type WarrenNode = { id: string; address: string; status: string; sandboxCount: number }

async function listNodes(notOn = ''): Promise<WarrenNode[]> {
  return JSON.parse(await warren(notOn, 'node', 'list', '--json'))
}

/** Which machine has which sandbox, by the rows of the database. */
async function nodesOfPods(): Promise<Map<string, string>> {
  const query = 'select s.id, n.address from sandboxes s join nodes n on n.id = s.node_id'
  const { stdout } = await run(cluster, ['query', query])
  return new Map(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.split('|') as [string, string]),
  )
}

async function spread(counting: readonly Counting[]): Promise<string> {
  const at = await nodesOfPods()
  const found = Object.groupBy(counting, ({ sandbox }) => at.get(sandbox.sandboxId) ?? 'nowhere')
  return Object.entries(found)
    .map(([address, all]) => `${address}: ${all!.length}`)
    .sort()
    .join(', ')
}

const addressOf = async (node: string): Promise<string> =>
  kube('get', 'node', node, '-o', 'jsonpath={.status.addresses[?(@.type=="InternalIP")].address}')

async function checkAll(counting: readonly Counting[]): Promise<void> {
  for (const one of counting) await checkCounting(one)
  log(
    `all ${counting.length} sandboxes answer, with the same processes and larger counts; ${await spread(counting)}`,
  )
}

/** Runs the action under load, with quiet time on both sides. */
async function underLoad(counting: readonly Counting[], action: () => Promise<void>): Promise<void> {
  const load = new Load(counting, Number(process.env.TRIAL_COMMAND_MS ?? 200))
  await seconds(10)
  log('the load runs; the action begins')
  await action()
  log('the action is over')
  await seconds(15)
  await load.end()
  console.log(load.report())
  await checkAll(counting)
}

async function untilAllReady(): Promise<void> {
  await eventually(async () => {
    const pods = await listPods()
    assert.equal(pods.filter(({ ready, ending }) => ready && !ending).length, 3, JSON.stringify(pods))
  })
}

async function undrainAll(): Promise<void> {
  for (const { id, status } of await listNodes()) {
    if (status === 'draining') log(await warren('', 'node', 'undrain', id))
  }
}

const phases: Record<string, (counting: Counting[]) => Promise<void>> = {
  async create(counting) {
    for (let made = 0; made < 9; made++) counting.push(await startCounting())
    save(counting)
    await checkAll(counting)
  },

  async drain(counting) {
    const node = process.env.TRIAL_NODE ?? 'node-2'
    const address = await addressOf(node)
    log(`before: ${await spread(counting)}`)
    await underLoad(counting, async () => {
      log(await kube('drain', node, '--ignore-daemonsets', '--delete-emptydir-data'))
      log(await warren('', 'node', 'drain', address))
      await eventually(async () => {
        const one = (await listNodes(node)).find((found) => found.address.startsWith(`${address}:`))
        assert.equal(`${one?.status} ${one?.sandboxCount}`, 'draining 0')
      })
    })
    log(await kube('uncordon', node))
    log(await warren('', 'node', 'undrain', address))
  },

  async restart(counting) {
    await underLoad(counting, async () => {
      await kube(...namespace, 'rollout', 'restart', 'daemonset/warren')
      log(await kube(...namespace, 'rollout', 'status', 'daemonset/warren', '--timeout=15m'))
    })
  },

  /** PostgreSQL ends, and starts again after 40 s. */
  database: (counting) => withoutDatabase(counting, 'postgres_stop', 'postgres_start'),
  /** PostgreSQL does not answer for 40 s, and refuses no connection. */
  hang: (counting) => withoutDatabase(counting, 'postgres_freeze', 'postgres_thaw'),

  /** With drainOnStop: the pod of a drained node is evicted, as a cluster autoscaler does it. */
  async evict(counting) {
    const node = 'node-3'
    await underLoad(counting, async () => {
      log(await kube('drain', node, '--ignore-daemonsets', '--delete-emptydir-data'))
      const pod = (await listPods()).find((one) => one.node === node)!
      await evict(pod.name)
      await untilGone(pod.name)
    })
    log(await kube(...namespace, 'get', 'events', '--field-selector', 'reason=FailedPreStopHook'))
    await untilAllReady()
    log(await kube('uncordon', node))
    await undrainAll()
  },

  /** With drainOnStop, and no other machine that takes sandboxes: the pod ends at the time limit, and they stay. */
  async late(counting) {
    const node = 'node-1'
    const address = await addressOf(node)
    const others = (await listNodes()).filter((one) => !one.address.startsWith(`${address}:`))
    for (const { id } of others) await warren('', 'node', 'drain', id)
    await eventually(async () => {
      const left = (await listNodes()).filter(
        ({ status, sandboxCount }) => status === 'draining' && sandboxCount > 0,
      )
      assert.deepEqual(left, [])
    })
    await underLoad(counting, async () => {
      const pod = (await listPods()).find((one) => one.node === node)!
      await kube(...namespace, 'delete', 'pod', pod.name, '--wait=false')
      await untilGone(pod.name)
      await untilAllReady()
      log('the next pod is ready')
    })
    log(await kube(...namespace, 'get', 'events', '--field-selector', 'reason=FailedPreStopHook'))
    await undrainAll()
  },

  /** With keda.sh: more creates than the machines can start at once, for two minutes, and how many machines KEDA wants then and later. */
  async crowd() {
    const end = Date.now() + 120_000
    const creates = Array.from({ length: 40 }, async () => {
      while (Date.now() < end) {
        await Sandbox.create({ timeoutMs: 60_000 }).then(
          (sandbox) => sandbox.kill(),
          () => seconds(1),
        )
      }
    })
    await watchMachines(120)
    await Promise.all(creates)
    log('no creates any more')
    await watchMachines(150)
  },

  async check(counting) {
    await checkAll(counting)
  },

  async end(counting) {
    for (const { sandbox } of counting) await sandbox.kill()
    save([])
  },
}

/** Logs each change of the number of placeholder pods. */
async function watchMachines(forSeconds: number): Promise<void> {
  let before = ''
  for (const end = Date.now() + forSeconds * 1000; Date.now() < end; await seconds(2)) {
    const path = 'jsonpath={.spec.replicas} wanted, {.status.readyReplicas} ready'
    const now = await kube(...namespace, 'get', 'deployment', 'warren-machines', '-o', path)
    if (now !== before) log(`machines: ${now}`)
    before = now
  }
}

/** Reads the endpoints of the Service every two seconds meanwhile. */
async function withoutDatabase(counting: readonly Counting[], before: string, after: string): Promise<void> {
  const seen = new Map<number, number>()
  await underLoad(counting, async () => {
    await run(cluster, [before])
    const end = Date.now() + 40_000
    while (Date.now() < end) {
      const slices = await list<{ endpoints?: { conditions: { ready: boolean } }[] }>(
        'endpointslices',
        '-l',
        'kubernetes.io/service-name=warren',
      )
      const ready = slices.flatMap(({ endpoints = [] }) =>
        endpoints.filter(({ conditions }) => conditions.ready),
      )
      seen.set(ready.length, (seen.get(ready.length) ?? 0) + 1)
      await seconds(2)
    }
    await run(cluster, [after])
    log(`ready endpoints, and how often they were seen: ${JSON.stringify([...seen])}`)
  })
}

async function evict(name: string): Promise<void> {
  const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace: 'warren' } }
  const file = `${savedPath}.eviction`
  writeFileSync(file, JSON.stringify(body))
  log(await kube('create', '--raw', `/api/v1/namespaces/warren/pods/${name}/eviction`, '-f', file))
}

async function untilGone(name: string): Promise<void> {
  const from = Date.now()
  await eventually(async () =>
    assert.ok(!(await listPods()).some((pod) => pod.name === name), `${name} is still there`),
  )
  log(`${name} ended after ${((Date.now() - from) / 1000).toFixed(1)} s`)
}

function save(counting: readonly Counting[]): void {
  writeFileSync(
    savedPath,
    JSON.stringify(counting.map(({ sandbox, first }) => ({ id: sandbox.sandboxId, first }))),
  )
}

async function readSaved(): Promise<Counting[]> {
  if (!existsSync(savedPath)) return []
  const all = JSON.parse(readFileSync(savedPath, 'utf8')) as { id: string; first: Counting['first'] }[]
  const connect = (id: string) => Sandbox.connect(id, { timeoutMs: 3_600_000 })
  return Promise.all(all.map(async ({ id, first }) => ({ sandbox: await connect(id), first })))
}

const counting = await readSaved()
for (const name of process.argv.slice(2)) {
  const phase = phases[name]
  assert.ok(phase, `Phases: ${Object.keys(phases).join(', ')}`)
  log(`== ${name}`)
  await phase(counting)
}
process.exit(0)
