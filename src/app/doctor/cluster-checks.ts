/** What the Warren that runs on this machine says of the other machines of its cluster. */
import { AdminClient } from '../../cli/admin-client.ts'
import { isAppError } from '../../lib/app-error.ts'
import { findServer } from '../commands/find-server.ts'
import type { Config } from '../config/config.ts'
import { type Finding, ok, warn } from '../setup/finding.ts'
import type { MachineCheck } from './machine-check.ts'

export const clusterChecks: readonly MachineCheck[] = [{ name: 'cluster', look: lookAtNodes }]

async function lookAtNodes(config: Config): Promise<Finding> {
  if (config.peerAddress === null) return ok('one machine')
  const server = await findServer(config).catch((error) => {
    if (isAppError(error, 'unavailable')) return undefined
    throw error
  })
  if (!server) return ok('the other machines are looked at while Warren runs')
  const nodes = await new AdminClient(server.access).listNodes()
  const problems = nodes.flatMap(({ id, problem }) => (problem === undefined ? [] : [`${id}: ${problem}`]))
  if (problems.length === 0)
    return ok(`${nodes.length} nodes, each at an address of its own and with the right time`)
  return warn(
    problems.join(' '),
    'Correct WARREN_PEER_ADDRESS, the clock or the network, or recover the volumes; see docs/cluster.md.',
  )
}
