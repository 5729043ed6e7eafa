/**
 * MCP's streamable HTTP without sessions: each request is independent, so nothing is stored for disconnected
 * clients.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { AnswerBudget } from './answer-budget.ts'
import { createMcpServer } from './mcp-server.ts'
import { type WarrenAccess, WarrenClient } from './warren-client.ts'

export class McpDoor {
  readonly #version: string
  readonly #budget: AnswerBudget

  constructor(version: string, budget = new AnswerBudget()) {
    this.#version = version
    this.#budget = budget
  }

  async answer(
    teamID: string,
    access: WarrenAccess,
    request: IncomingMessage,
    response: ServerResponse,
    body: unknown,
  ): Promise<void> {
    // The client has left: nothing would ever close what is held for it.
    if (response.destroyed) return
    const buffered = this.#budget.open(teamID)
    const server = createMcpServer(new WarrenClient(access, buffered), this.#version)
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
    response.once('close', () => {
      buffered.close()
      void server.close()
    })
    await server.connect(transport as Transport)
    await transport.handleRequest(request, response, body)
  }
}
