/** How long a sandbox takes to be there, to answer and to go, beside what its parts take by themselves. */
import type { Isolation } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import type { ContainerEngine } from '../contenders/container-engine.ts'
import { rawFor } from '../contenders/raw-for.ts'
import type { RawRuntime } from '../contenders/raw-runtime.ts'
import { type StartedAgent, startedAgent, warrenLife, warrenName } from '../contenders/warren.ts'
import { type Contender, rowName, takeTurns } from '../measure.ts'
import { medianOf, type Report, type Target } from '../report.ts'

const runTrue = 'run /bin/true'
const agentBoot = 'run agent until /health'
/** Until what was started ahead for the next create is there. */
const pauseMs = 800
const dockerRun = rowName('docker', 'run --rm /bin/true')

export async function sandboxes(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const contenders: Contender[] = []
  for (const isolation of machine.isolations) contenders.push(...(await contendersFor(machine, isolation)))
  const engines = await machine.engines()
  for (const engine of engines) contenders.push(...engineContenders(engine))
  const onRound = (done: number) => machine.say(done === 0 ? '  warmed up' : `  round ${done} of ${rounds}`)
  const rows = await takeTurns(contenders, { rounds, signal: machine.signal, pauseMs, onRound })
  return {
    title: `Sandboxes: ${rounds} rounds, one try of each per round`,
    peers: engines.map(({ name, version }) => `${name} ${version}`),
    rows,
    references: [
      { label: 'docker run', row: dockerRun },
      { label: 'runc+agent', row: rowName('raw runc', agentBoot) },
      { label: 'runsc+agent', row: rowName('raw runsc', agentBoot) },
    ],
    targets: targets({ rows }),
  }
}

function targets(report: Pick<Report, 'rows'>): Target[] {
  const life = (contender: string) => medianOf(report, rowName(contender, 'create + first command'))
  const docker = medianOf(report, dockerRun)
  const booted = medianOf(report, rowName('raw runsc', agentBoot))
  const made = (what: string, value: number, atMost: number): Target => ({
    promise: `${what}, create + first command`,
    value,
    atMost,
    unit: ' ×',
  })
  return [
    made('container against docker run', life('warren container') / docker, 1 / 12),
    made('gVisor against docker run', life('warren gvisor') / docker, 1 / 6),
    made('container, cold, against docker run', life('warren container, cold') / docker, 0.35),
    made('gVisor, cold, against raw runsc with the agent', life('warren gvisor, cold') / booted, 1.1),
  ]
}

async function contendersFor(machine: BenchMachine, isolation: Isolation): Promise<Contender[]> {
  const [warren, cold] = [await machine.warren(isolation), await machine.warren(isolation, 'cold')]
  const agent = await startedAgent(warren)
  const raw = await rawFor(machine, isolation, agent)
  return [...rawContenders(raw, agent), warrenLife(warren), warrenLife(cold, `${warrenName(cold)}, cold`)]
}

function rawContenders(runtime: RawRuntime, agent: StartedAgent): Contender[] {
  const { name } = runtime
  return [
    { name, sample: async () => ({ [runTrue]: await runtime.runTrue() }) },
    { name, sample: async () => ({ [agentBoot]: await runtime.bootAgent(agent.process) }) },
  ]
}

function engineContenders(engine: ContainerEngine): Contender[] {
  const { name } = engine
  const runNode = async () => {
    const { firstOutputMs, exitMs } = await engine.run(['node', '-v'])
    return { 'run --rm node -v, first output': firstOutputMs, 'run --rm node -v': exitMs }
  }
  return [
    { name, sample: async () => ({ 'run --rm /bin/true': (await engine.run(['/bin/true'])).exitMs }) },
    { name, sample: runNode },
  ]
}
