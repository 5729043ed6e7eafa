/**
 * `warren mcp`: sandboxes as tools over standard input and output, for a client that starts the command
 * itself.
 */
import { once } from 'node:events'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { asksForHelp, unknownArgument } from '../../cli/arguments.ts'
import { createMcpServer } from '../../mcp/mcp-server.ts'
import { type WarrenAccess, WarrenClient } from '../../mcp/warren-client.ts'
import { version } from '../project/version.ts'

const usage = `Usage:
  warren mcp

Speaks the Model Context Protocol over standard input and output. The variables E2B_API_KEY, E2B_API_URL and E2B_DOMAIN
say which server and team; without them it is the server of this machine and its first team.`

export async function mcpCommand(
  args: readonly string[],
  find: () => Promise<WarrenAccess>,
): Promise<string | number> {
  if (asksForHelp(args)) return usage
  if (args[0] !== undefined) throw unknownArgument(args[0], 'warren mcp')
  const server = createMcpServer(new WarrenClient(await find()), version)
  await server.connect(new StdioServerTransport())
  await once(process.stdin, 'end')
  await server.close()
  return 0
}
