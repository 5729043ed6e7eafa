/**
 * MCP's streamable HTTP without sessions: each request is independent, so nothing is stored for disconnected
 * clients.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { createMcpServer } from './mcp-server.ts'
import { type WarrenAccess, WarrenClient } from './warren-client.ts'

export async function answerMcp(
  access: WarrenAccess,
  version: string,
  request: IncomingMessage,
  response: ServerResponse,
  body: unknown,
): Promise<void> {
  const server = createMcpServer(new WarrenClient(access), version)
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
  response.once('close', () => void server.close())
  await server.connect(transport as Transport)
  await transport.handleRequest(request, response, body)
}
