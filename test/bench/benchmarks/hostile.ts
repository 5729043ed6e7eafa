/**
 * What others notice of one hostile sandbox or client (lines I1 and I5 of the hostile tests): the slowest answers of
 * the API and of a neighbour's service while it tries, beside those of the same run while nobody does.
 */
import { Worker } from 'node:worker_threads'
import { Sandbox } from 'e2b'
import { delay } from '../../../src/lib/clock.ts'
import { atUsualPriority, raisePriority, restorePriority } from '../../../src/lib/priority.ts'
import type { Isolation, Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import type { Flood } from '../contenders/flood.ts'
import { type Contender, percentile, type Row, rowName, takeTurns, timed } from '../measure.ts'
import { medianOf, type Report, type Target } from '../report.ts'

const quiet = 'nobody hostile'
const steps = { api: 'p99 of the API', neighbour: 'p99 of a neighbour' }
const maxTimesQuiet = 3
const servicePort = 8000
/** Long enough for an attack to be under way. */
const attackAheadMs = 700

/** Answers every request with endless interim answers. */
const hintsService = `python3 -c "
import socket, threading
def flood(client):
    try:
        client.recv(65536)
        while True: client.sendall(b'HTTP/1.1 103 Early Hints\\r\\nLink: </a>\\r\\n\\r\\n' * 1000)
    except OSError: client.close()
server = socket.create_server(('', ${servicePort}))
while True: threading.Thread(target=flood, args=(server.accept()[0],), daemon=True).start()"`

/** Opens as many connections as it can, to an address for documentation that is nobody's. */
const floodOfFlows = `python3 -c "
import socket
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    for port in range(1, 60000):
        try: sender.sendto(b'x', ('198.51.100.7', port))
        except OSError: pass"`

/** What root of a sandbox runs to harm others. */
const commands = {
  'taking all CPU': 'for each in 1 2 3 4; do while :; do :; done & done; wait',
  'a fork bomb': `perl -e 'while (1) { defined fork or select undef, undef, undef, 0.1 }'`,
  'a flood of output': 'exec yes',
  'a flood of connections': floodOfFlows,
} as const

type Attack = (bench: Scene) => Promise<() => Promise<unknown>>
type Scene = { warren: Warren; neighbour: Sandbox }

export async function hostile(machine: BenchMachine, { rounds, count }: { rounds: number; count: number }) {
  const rows: Row[] = []
  for (const isolation of machine.isolations) {
    const warren = await machine.warren(isolation)
    const neighbour = await Sandbox.create('base', warren.client)
    // This client stands for one on another machine, which does not wait for the CPUs of this one.
    const problem = raisePriority()
    if (problem) machine.say(`  The client cannot come before the sandboxes: ${problem}`)
    try {
      const contenders = contendersFor({ warren, neighbour }, count * 10)
      const onRound = (done: number) => machine.say(`  ${isolation}: round ${done} of ${rounds}`)
      rows.push(...(await takeTurns(contenders, { rounds, signal: machine.signal, pauseMs: 1500, onRound })))
    } finally {
      restorePriority()
      await neighbour.kill()
    }
  }
  const targets = machine.isolations.flatMap((isolation) => targetsFor({ rows }, isolation))
  return { title: 'Others, while one sandbox or client is hostile', rows, targets }
}

function contendersFor(scene: Scene, requests: number): Contender[] {
  return Object.entries(attacks).map(([name, attack]) => ({
    name: `${scene.warren.isolation}, ${name}`,
    async sample() {
      const stop = await attack(scene)
      try {
        await delay(attackAheadMs)
        const api = () => scene.warren.api(`/sandboxes/${scene.neighbour.sandboxId}`)
        const health = new URL('/health', scene.warren.url)
        const headers = { 'e2b-sandbox-id': scene.neighbour.sandboxId, 'e2b-sandbox-port': '49983' }
        return {
          [steps.api]: await p99Of(requests, api),
          [steps.neighbour]: await p99Of(requests, () => fetch(health, { headers })),
        }
      } finally {
        await stop()
      }
    },
  }))
}

async function p99Of(requests: number, ask: () => Promise<Response>): Promise<number> {
  const latencies: number[] = []
  for (let asked = 0; asked < requests; asked++) {
    const [ms, answer] = await timed(ask)
    await answer.arrayBuffer()
    if (!answer.ok) throw new Error(`the answer was ${answer.status}`)
    latencies.push(ms)
  }
  return percentile(latencies, 99)
}

const attacks: Record<string, Attack> = {
  [quiet]: async () => async () => {},
  ...Object.fromEntries(
    Object.entries(commands).map(([name, command]) => [name, ({ warren }) => runHostile(warren, command)]),
  ),
  'endless 103s': async ({ warren }) => {
    const sandbox = await startHostile(warren, hintsService)
    const host = `${servicePort}-${sandbox.sandboxId}.localhost`
    const end = flood(warren, {
      connections: 5,
      request: `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      ahead: 1,
    })
    return async () => {
      await end()
      await sandbox.kill()
    }
  },
  'requests sent ahead without a key': async ({ warren }) => {
    const request = `GET /sandboxes HTTP/1.1\r\nHost: ${new URL(warren.url).host}\r\n\r\n`
    return flood(warren, { connections: 5, request, ahead: 1000 })
  },
}

async function startHostile(warren: Warren, command: string): Promise<Sandbox> {
  const sandbox = await Sandbox.create('base', warren.client)
  const started = await sandbox.commands.run(command, { user: 'root', background: true, timeoutMs: 0 })
  // The client that measures reads nothing of what it says; Warren still follows its log.
  await started.disconnect()
  return sandbox
}

async function runHostile(warren: Warren, command: string): Promise<() => Promise<unknown>> {
  const sandbox = await startHostile(warren, command)
  return () => sandbox.kill()
}

/** In a thread of its own, so that the client that measures has nothing to do with it. */
function flood(warren: Warren, flood: Omit<Flood, 'port'>): () => Promise<unknown> {
  const workerData: Flood = { port: Number(new URL(warren.url).port), ...flood }
  const script = new URL('../contenders/flood.ts', import.meta.url)
  const worker = atUsualPriority(() => new Worker(script, { workerData }))
  return () => worker.terminate()
}

function targetsFor(report: Pick<Report, 'rows'>, isolation: Isolation): Target[] {
  const of = (name: string, step: string) => medianOf(report, rowName(`${isolation}, ${name}`, step))
  const hostiles = Object.keys(attacks).filter((name) => name !== quiet)
  return hostiles.flatMap((name) =>
    Object.values(steps).map((step) => ({
      promise: `${isolation}, ${name}: ${step} against a quiet server`,
      value: of(name, step) / of(quiet, step),
      atMost: maxTimesQuiet,
      unit: ' ×',
    })),
  )
}
