/** The agents of a machine: each answers exactly as long as its sandbox runs, and keeps what it was told in memory. */
import type { AgentPort } from '../../src/core/ports/agent.ts'
import type { FakeWorld } from '../../src/drivers/fake/fake-world.ts'
import { AppError } from '../../src/lib/app-error.ts'

/** Where programs in a sandbox write, in its memory and in its files. */
export const writtenKey = 'written'
const agentTokenKey = 'agent token'
const variablesKey = 'variables'

/** By which a sandbox knows the request and the team that it was handed over to. */
export const variablesOf = (teamID: string, number: number): Record<string, string> => ({
  TEAM: teamID,
  ASK: String(number),
})

/** The variables that the sandbox was last handed over with; undefined: it was not. */
export function handedOverWith(memory: ReadonlyMap<string, string>): Record<string, string> | undefined {
  const text = memory.get(variablesKey)
  return text === undefined ? undefined : JSON.parse(text)
}

export function newSimulatedAgent(world: FakeWorld, onInitialize: (runID: string) => void): AgentPort {
  const at = (host: string) =>
    [...world.sandboxes.values()].find(
      ({ handle, running, frozen }) => handle.data.address === host && running && !frozen,
    )
  return {
    async initialize({ host }, { accessToken, envVars, hasOwner }, { currentToken }) {
      const there = at(host)
      if (!there) throw new AppError('unavailable', 'The agent does not answer.')
      onInitialize(there.spec.runID)
      const { memory } = there
      const known = memory.get(agentTokenKey)
      if (known !== undefined && known !== currentToken) {
        throw new AppError('permission_denied', 'The agent knows another token.')
      }
      if (accessToken !== undefined) memory.set(agentTokenKey, accessToken)
      if (hasOwner !== false && envVars) memory.set(variablesKey, JSON.stringify(envVars))
    },
    isHealthy: async ({ host }) => at(host) !== undefined,
    findOtherNetworks: async () => 'none',
    run: async () => ({ exitCode: 0, status: 'exit status 0' }),
    async writeFile() {},
    async *followLogs() {},
  }
}
