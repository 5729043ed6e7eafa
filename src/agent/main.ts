/** The agent's own start. */
import { envdPort } from '../contract/constants.ts'
import type { Tools } from './process/launch.ts'
import { createAgent } from './server.ts'

/** Put in by who builds the bundle, and who alone knows where the programs will lie. */
declare const agentTools: Tools

// The sandbox dies with its agent: a fault in one request must not take everything else along.
process.on('uncaughtException', (error) => console.error(error))

createAgent({ tools: agentTools }).server.listen(envdPort, '0.0.0.0')
