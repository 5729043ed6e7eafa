/**
 * Sandboxes as tools for any client of the Model Context Protocol. Uses the same API as every other client,
 * so that a tool can do nothing that its API key may not.
 */
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { isAppError } from '../lib/app-error.ts'
import { sandboxTools } from './sandbox-tools.ts'
import type { Tool, ToolAnswer } from './tool.ts'
import type { WarrenClient } from './warren-client.ts'
import { workTools } from './work-tools.ts'

const instructions =
  'Each sandbox is an isolated Linux machine of your own: create one, run commands and code in it, read and write its ' +
  'files, and open its ports. A sandbox keeps its state from call to call; kill it when it is no longer needed.'

const tools: readonly Tool[] = [...sandboxTools, ...workTools]
const byName = new Map(tools.map((tool) => [tool.name, tool]))

export function createMcpServer(client: WarrenClient, version: string): Server {
  const server = new Server({ name: 'warren', version }, { capabilities: { tools: {} }, instructions })
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
  }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal }) =>
    answerOf(client, params.name, params.arguments ?? {}, signal),
  )
  return server
}

async function answerOf(
  client: WarrenClient,
  name: string,
  given: unknown,
  signal: AbortSignal,
): Promise<ToolAnswer> {
  const tool = byName.get(name)
  if (!tool) return failed(`There is no tool '${name}'. There are: ${[...byName.keys()].join(', ')}.`)
  try {
    return await tool.call(client, given, signal)
  } catch (error) {
    return failed(isAppError(error) ? error.message : 'The answer of the sandbox could not be read.')
  }
}

/** A failure that the model should read and act on. */
function failed(text: string): ToolAnswer {
  return { content: [{ type: 'text', text }], isError: true }
}
