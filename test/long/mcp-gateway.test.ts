/** The option `mcp` of E2B's client: its template, its servers, and the tools of all of them behind one port. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { Sandbox, Template } from 'e2b'
import { trustSettings } from '../support/host-authorities.ts'
import { isolations, noWarmPool, repoFolder, startWarren, type Warren } from '../support/warren.ts'

for (const isolation of isolations) {
  describe(`MCP servers in a sandbox (${isolation})`, { timeout: 900_000 }, () => {
    let warren: Warren
    before(async () => {
      warren = await startWarren(isolation, { settings: { ...trustSettings(), ...noWarmPool } })
      const added = spawnSync(`${repoFolder}/bin/warren`, ['template', 'add', 'mcp-gateway'], {
        env: { ...process.env, WARREN_DATA_DIR: warren.dataFolder },
        encoding: 'utf8',
      })
      assert.equal(added.status, 0, added.stdout + added.stderr)
    })
    after(() => warren?.stop())

    const create = (mcp: object, template = 'mcp-gateway') =>
      Sandbox.create(template, { ...warren.client, mcp: mcp as never, timeoutMs: 300_000 })

    async function connected(sandbox: Sandbox, token: string): Promise<Client> {
      const headers = {
        'E2b-Sandbox-Id': sandbox.sandboxId,
        'E2b-Sandbox-Port': '50005',
        Authorization: `Bearer ${token}`,
      }
      const client = new Client({ name: 'test', version: '1' })
      const transport = new StreamableHTTPClientTransport(new URL('/mcp', warren.url), {
        requestInit: { headers },
      })
      await client.connect(transport as Transport)
      return client
    }

    it('answer together, for clients with the token, and continue after a pause', async () => {
      const sandbox = await create({
        memory: {},
        time: {},
        second: {
          runCmd:
            'node /opt/mcp-gateway/servers/memory/node_modules/@modelcontextprotocol/server-memory/dist/index.js',
        },
      })
      const token = (await sandbox.getMcpToken())!
      assert.match(token, /^[0-9a-f-]{36}$/)
      const client = await connected(sandbox, token)
      const names = (await client.listTools()).tools.map(({ name }) => name)
      for (const name of ['create_entities', 'get_current_time', 'second_create_entities'])
        assert.ok(names.includes(name), `${name} is not among ${names}`)
      const entities = [{ name: 'Warren', entityType: 'rabbit', observations: ['digs'] }]
      await client.callTool({ name: 'create_entities', arguments: { entities } })
      await sandbox.pause()
      await sandbox.connect()
      const again = await connected(await Sandbox.connect(sandbox.sandboxId, warren.client), token)
      const read = await again.callTool({ name: 'search_nodes', arguments: { query: 'rabbit' } })
      assert.match(JSON.stringify(read.content), /digs/)
      await assert.rejects(connected(sandbox, 'wrong'), /Unauthorized: send the token/)
      const another = await Sandbox.connect(sandbox.sandboxId, warren.client)
      assert.equal(await another.getMcpToken(), token)
      await sandbox.kill()
    })

    it('fail the create with a reason if they do not exist', async () => {
      await assert.rejects(
        create({ nothing: {} }),
        /Failed to start MCP gateway: There is no MCP server 'nothing' here\. Give a runCmd/,
      )
      await assert.rejects(create({ broken: { runCmd: 'exit 3' } }), /The MCP server 'broken' does not start/)
    })

    it('are installed ahead by a template that adds them', async () => {
      const template = Template().fromTemplate('mcp-gateway').addMcpServer('sequentialthinking')
      await Template.build(template, 'with-thinking', warren.client)
      const sandbox = await create({ sequentialthinking: {} }, 'with-thinking')
      const { stdout } = await sandbox.commands.run(
        'cat /var/log/mcp-gateway.log; ls /opt/mcp-gateway/servers',
      )
      assert.match(stdout, /sequentialthinking/)
      const client = await connected(sandbox, (await sandbox.getMcpToken())!)
      const thought = { thought: 'dig', thoughtNumber: 1, totalThoughts: 1, nextThoughtNeeded: false }
      const { content } = await client.callTool({ name: 'sequentialthinking', arguments: thought })
      assert.match(JSON.stringify(content), /thoughtHistoryLength/)
      await sandbox.kill()
    })
  })
}
