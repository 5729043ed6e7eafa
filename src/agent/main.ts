/** Started by boot.ts: runs the agent, or once rehearses its work for the kit. */
import { once } from 'node:events'
import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { envdPort, header } from '../contract/constants.ts'
import { systemClock } from '../lib/clock.ts'
import { releaseMemoryWhenIdle } from './idle-memory.ts'
import { isGvisor, listenAlone } from './listen.ts'
import { logFault, logMemoryKill } from './log/agent-events.ts'
import { AgentLog } from './log/agent-log.ts'
import { MemoryGuard } from './memory-guard.ts'
import { createAgent } from './server.ts'

/** Set by the build of the bundle, which alone knows the addon's path. */
declare const agentAddon: string

const startedAheadAfterMs = 200
/** The token of an agent that nobody else reaches, and that ends at once. */
const rehearsalToken = 'rehearsal'

export function startAgent(): void {
  // The sandbox dies with its agent: a fault in one request must not end everything else.
  const log = new AgentLog(systemClock)
  process.on('uncaughtException', (error) => logFault(log, error))
  const onKill = (pid: number, bytes: number) => logMemoryKill(log, pid, bytes)
  const guard = isGvisor() ? new MemoryGuard({ onKill }) : undefined
  const agent = createAgent({ addon: agentAddon, log, processes: { onStart: () => guard?.watch() } })
  releaseMemoryWhenIdle(agent.server, () => agent.identity.hasOwner, agentAddon)
  listenAlone(agent.server, envdPort, agentAddon)
  // No request came at once: the sandbox waits in the warm pool, and has time to prepare for a first command.
  setTimeout(() => void agent.services().then(({ processes }) => processes.warmUp()), startedAheadAfterMs)
}

/**
 * Runs a first command on a separate port, so that its code is compiled and can be stored for later starts.
 * The agent writes its files into `folder`.
 */
export async function rehearse(folder: string): Promise<void> {
  // The kit is not yet at its place in a sandbox.
  const addon = join(dirname(process.argv[1]!), basename(agentAddon))
  const { server } = createAgent({ addon, runFolder: folder })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const identity = JSON.stringify({
    accessToken: rehearsalToken,
    envVars: { E2B_SANDBOX: 'true' },
    defaultUser: 'root',
    defaultWorkdir: '/',
  })
  await send(port, '/init', 'application/json', identity)
  // Longer commands take another path, on which their output is read as it comes.
  for (const command of ['echo', 'echo; sleep 0.1; echo']) await start(port, command)
  await send(port, '/filesystem.Filesystem/Stat', 'application/json', '{"path":"/"}')
  server.closeAllConnections()
  server.close()
}

function start(port: number, command: string): Promise<void> {
  const message = Buffer.from(
    JSON.stringify({ process: { cmd: '/bin/sh', args: ['-c', command] }, stdin: false }),
  )
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return send(port, '/process.Process/Start', 'application/connect+json', Buffer.concat([head, message]))
}

async function send(port: number, path: string, type: string, body: string | Buffer): Promise<void> {
  const outgoing = request({
    host: '127.0.0.1',
    port,
    method: 'POST',
    path,
    headers: { 'content-type': type, [header.accessToken]: rehearsalToken },
    agent: false,
  })
  outgoing.end(body)
  const [response] = await once(outgoing, 'response')
  response.resume()
  await once(response, 'end')
}
