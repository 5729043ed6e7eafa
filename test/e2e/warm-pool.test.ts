/** Sandboxes that wait booted, those with a service included: what their owner gets, and what it cannot learn. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Sandbox, type SandboxOpts, Template, waitForPort } from 'e2b'
import { eventually } from '../support/eventually.ts'
import { isolations, startWarren, type Warren } from '../support/warren.ts'

/** Tells which variables it was started with, and how often it has been asked. */
const server = `import http.server, os, json
asked = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global asked
        asked += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({'asked': asked, 'owner': os.environ.get('OWNER'), 'from': os.environ.get('FROM')}).encode())
http.server.HTTPServer(('', 8000), Handler).serve_forever()`

/** What a sandbox could know a neighbour or an earlier owner by. */
const traces = {
  boot: 'cat /proc/sys/kernel/random/boot_id',
  host: 'hostname',
  random: 'head -c 16 /dev/urandom | od -A n -t x1',
  hashes: `python3 -c 'print(hash("a"))'`,
}
const leftovers = 'ls -A /tmp /home/user /var/tmp'

for (const isolation of isolations) {
  describe(`the warm pool (${isolation})`, () => {
    let warren: Warren

    before(async () => {
      warren = await startWarren(isolation, { settings: { WARREN_WARM_SANDBOXES: '1' } })
      const template = Template()
        .fromBaseImage()
        .setEnvs({ FROM: 'template' })
        .runCmd(`cat > server.py <<'END'\n${server}\nEND`)
        .setStartCmd('python3 server.py', waitForPort(8000))
      await Template.build(template, 'served', warren.client)
    })

    after(async () => void (await warren?.stop()))

    const create = (template: string, envs: Record<string, string> = {}) =>
      Sandbox.create(template, { ...warren.client, envs, timeoutMs: 120_000 })

    /** Ids of sandboxes without an owner; those of the template with a service are frozen once they are ready. */
    const waiting = (isServed: boolean): string[] => {
      const folder = join(warren.dataFolder, 'sandboxes')
      return readdirSync(folder).filter((sandboxID) => {
        const record = join(folder, sandboxID, 'record.json')
        if (!existsSync(record) || !JSON.parse(readFileSync(record, 'utf8')).disposable) return false
        return existsSync(join(folder, sandboxID, 'frozen.json')) === isServed
      })
    }

    /** A sandbox that waited before it was asked for. */
    async function createWarm(
      options: { template: string; isServed: boolean } & SandboxOpts,
    ): Promise<Sandbox> {
      const { template, isServed, ...rest } = options
      let warm: Sandbox | undefined
      await eventually(async () => {
        const ids = waiting(isServed)
        assert.ok(ids.length > 0, 'none waits')
        const sandbox = await Sandbox.create(template, { ...warren.client, timeoutMs: 3_600_000, ...rest })
        if (ids.includes(sandbox.sandboxId)) warm = sandbox
        else await sandbox.kill()
        assert.ok(warm, `${sandbox.sandboxId} did not wait`)
      })
      return warm!
    }

    const ask = async (sandbox: Sandbox) =>
      JSON.parse((await sandbox.commands.run('curl -s localhost:8000')).stdout) as object

    it('a service runs before its sandbox has an owner, is frozen meanwhile, and never sees the owner’s variables', async () => {
      const cold = await create('served', { OWNER: 'me' })
      const warm = await createWarm({ template: 'served', isServed: true, envs: { OWNER: 'me' } })
      for (const sandbox of [cold, warm]) {
        assert.deepEqual(await ask(sandbox), { asked: 1, owner: null, from: 'template' })
        assert.equal((await sandbox.commands.run('echo $OWNER $FROM')).stdout, 'me template\n')
      }
      await Promise.all([cold.kill(), warm.kill()])
    })

    it('a sandbox that is handed out has the egress policy of its owner', async () => {
      const closed = await createWarm({ template: 'served', isServed: true, allowInternetAccess: false })
      const record = join(warren.dataFolder, 'sandboxes', closed.sandboxId, 'record.json')
      assert.deepEqual(JSON.parse(readFileSync(record, 'utf8')).egress.deny, ['0.0.0.0/0'])
      await closed.kill()
    })

    it('a sandbox contains nothing of others: its names, random numbers and files are its own', async () => {
      const seen: Record<string, Set<string>> = {}
      const files = new Set<string>()
      const ids: string[] = []
      for (let round = 0; round < 3; round++) {
        const sandbox = await createWarm({ template: 'base', isServed: false })
        for (const [name, command] of Object.entries(traces)) {
          seen[name] ??= new Set()
          seen[name].add((await sandbox.commands.run(command)).stdout)
        }
        files.add((await sandbox.commands.run(leftovers)).stdout)
        await sandbox.commands.run('echo mine > /tmp/mine; echo mine > /home/user/mine')
        ids.push(sandbox.sandboxId)
        await sandbox.kill()
      }
      assert.equal(new Set(ids).size, 3)
      for (const [name, values] of Object.entries(seen)) assert.equal(values.size, 3, name)
      assert.equal(files.size, 1)
      assert.doesNotMatch([...files][0]!, /mine/)
    })

    it('the warm sandboxes of a template are removed with it', async () => {
      await create('served').then((sandbox) => sandbox.kill())
      await eventually(() => assert.notDeepEqual(waiting(true), []))
      await warren.api('/templates/served', { method: 'DELETE' })
      assert.deepEqual(waiting(true), [])
    })
  })
}
