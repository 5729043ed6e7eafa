/** An agent that runs no process: what it was asked for can be read, and what it answers is a knob. */
import type {
  AgentCommand,
  AgentPort,
  CommandEnd,
  CommandOutput,
  OtherNetworks,
} from '../../src/core/ports/agent.ts'
import type { FakeDriver } from '../../src/drivers/fake/fake-driver.ts'
import type { FakeSandbox } from '../../src/drivers/fake/fake-world.ts'
import { finish } from '../../src/images/phases/scripts.ts'

export type FakeAgent = AgentPort & {
  /** Ids that were handed over, and the token that each call showed. */
  initialized: string[]
  knownBy: (string | undefined)[]
  /** Whether each was told to want its token. */
  secured: boolean[]
  /** The tokens of the agents that were told of the gate's authority. */
  trusting: string[]
  /** The authorities that each agent was told to trust, in the order of the calls. */
  authorities: string[]
  fail: Error | undefined
  healthy: boolean
  /** What it says of processes with a network of their own. */
  otherNetworks: OtherNetworks
  /** Commands that were run, and how each ends. */
  ran: string[]
  commands: AgentCommand[]
  runs: (command: string, inside: Inside) => Promise<CommandEnd>
  /** How a look at the authorities that a build added ends; it counts among no other commands. */
  finishEnds: CommandEnd
  /** Files that were written from outside. */
  written: { path: string; text: string }[]
}

/** Where a command runs. */
export type Inside = {
  sandbox: FakeSandbox
  command: AgentCommand
  say: (stream: CommandOutput['stream'], text: string) => void
}

export function createFakeAgent(driver: FakeDriver): FakeAgent {
  const agent: FakeAgent = {
    initialized: [],
    knownBy: [],
    secured: [],
    trusting: [],
    authorities: [],
    fail: undefined,
    healthy: true,
    otherNetworks: 'none',
    ran: [],
    runs: async () => ({ exitCode: 0, status: 'exit status 0' }),
    finishEnds: { exitCode: 0, status: 'exit status 0' },
    async initialize(_, identity, { currentToken }) {
      if (agent.fail) throw agent.fail
      if (identity.caBundle) agent.authorities.push(identity.caBundle)
      if (identity.accessToken === undefined) return void agent.trusting.push(currentToken ?? '')
      agent.initialized.push(identity.envVars?.E2B_SANDBOX_ID ?? '')
      agent.knownBy.push(currentToken)
      agent.secured.push(identity.secure ?? true)
    },
    isHealthy: async () => agent.healthy,
    findOtherNetworks: async () => agent.otherNetworks,
    commands: [],
    written: [],
    async run({ host }, _token, command, { signal, onOutput }) {
      signal.throwIfAborted()
      if (command.command === finish) return agent.finishEnds
      agent.ran.push(command.command)
      agent.commands.push(command)
      const found = [...driver.world.sandboxes.values()].find(({ handle }) => handle.data.address === host)
      const say: Inside['say'] = (stream, text) => onOutput?.({ stream, data: Buffer.from(text) })
      const aborted = new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      })
      return Promise.race([agent.runs(command.command, { sandbox: found!, command, say }), aborted])
    },
    async writeFile(_agent, _token, path, body) {
      agent.written.push({ path, text: Buffer.concat(await body.toArray()).toString() })
    },
    async *followLogs() {},
  }
  return agent
}
