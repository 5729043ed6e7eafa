/** The agent's own start: argv names the programs it brings along. */

import { envdPort } from '../contract/constants.ts'
import { createAgent } from './server.ts'
import { startupTools } from './startup-tools.ts'

const agent = createAgent({ tools: startupTools(process.argv.slice(2)) })
agent.server.listen(envdPort, '0.0.0.0')
