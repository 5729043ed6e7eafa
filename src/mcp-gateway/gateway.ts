/** Many MCP servers as one: all their tools behind one port and one token. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { createServer, type Server as HttpServer, type IncomingMessage } from 'node:http'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { CallToolRequestSchema, ListToolsRequestSchema, type Tool } from '@modelcontextprotocol/sdk/types.js'
import { AppError, errorText } from '../lib/app-error.ts'
import type { ServerRecipe } from './catalogue.ts'
import { startLine } from './install.ts'

const callWithinMs = 10 * 60_000

/** A tool under its name in the gateway, and its server. */
type OwnedTool = { tool: Tool; ownName: string; client: Client }

export class Gateway {
  readonly #tools = new Map<string, OwnedTool>()

  /** Starts a server and adds its tools. A tool whose name is taken gets its server's name as a prefix. */
  async add(recipe: ServerRecipe, variables: Record<string, string>): Promise<void> {
    const client = new Client({ name: 'mcp-gateway', version: '1' })
    const env = { ...variables, ...recipe.envs }
    try {
      await client.connect(new StdioClientTransport({ ...startLine(recipe), env, stderr: 'inherit' }))
      const { tools } = await client.listTools()
      for (const tool of tools) {
        const name = this.#tools.has(tool.name)
          ? `${recipe.name.replaceAll('/', '_')}_${tool.name}`
          : tool.name
        this.#tools.set(name, { tool: { ...tool, name }, ownName: tool.name, client })
      }
    } catch (error) {
      const why = `The MCP server '${recipe.name}' does not start: ${errorText(error)}`
      throw new AppError('unavailable', why, { cause: error })
    }
  }

  /** Answers MCP at `/mcp` for clients with the token; every request is independent. */
  serve(token: string): HttpServer {
    return createServer((request, response) => {
      const reject = (status: number, message: string) => {
        response.writeHead(status, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32_000, message }, id: null }))
      }
      if (request.url?.split('?', 1)[0] !== '/mcp') return reject(404, 'MCP is at /mcp.')
      if (!isAllowed(request, token)) {
        return reject(401, 'Unauthorized: send the token of the gateway as a bearer token.')
      }
      if (request.method !== 'POST') return reject(405, 'There are no sessions here: use POST.')
      const server = this.#server()
      const transport = new StreamableHTTPServerTransport({})
      response.once('close', () => void server.close())
      server
        .connect(transport as Transport)
        .then(() => transport.handleRequest(request, response))
        .catch(() => response.destroy())
    })
  }

  #server(): Server {
    const server = new Server({ name: 'mcp-gateway', version: '1' }, { capabilities: { tools: {} } })
    server.setRequestHandler(ListToolsRequestSchema, () => ({
      tools: [...this.#tools.values()].map(({ tool }) => tool),
    }))
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal }) => {
      const found = this.#tools.get(params.name)
      if (!found) throw new AppError('not_found', `There is no tool '${params.name}'.`)
      const call = { ...params, name: found.ownName }
      return await found.client.callTool(call, undefined, { signal, timeout: callWithinMs })
    })
    return server
  }
}

function isAllowed({ headers }: IncomingMessage, token: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(headers.authorization ?? ''), digest(`Bearer ${token}`))
}
