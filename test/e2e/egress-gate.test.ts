/** Rules by name, header rules and proxies, from the client to a host outside and back. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ALL_TRAFFIC, Sandbox, Secret } from 'e2b'
import { elsewhere, internet } from '../../src/drivers/oci/suite/outside.ts'
import { newUUID } from '../../src/lib/ids.ts'
import { eventually } from '../support/eventually.ts'
import { filesWith, processesWith } from '../support/leaked-texts.ts'
import { NamedWorld, socksPort } from '../support/named-world.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

type Seen = { at: string; by: string; headers: Record<string, string> }

for (const isolation of isolations) {
  describe(`names, headers and proxies, ${isolation}`, () => {
    let warren: Warren
    const outside = new NamedWorld(['allowed.test', 'deep.allowed.test', 'other.test'])
    const settings = { ...outside.settings, ...noWarmPool, WARREN_LOG_LEVEL: 'debug' }
    before(async () => {
      warren = await startWarren(isolation, { settings })
      await outside.open(warren.dataFolder)
    })
    after(async () => {
      await outside.close()
      await warren?.stop()
    })

    type Network = NonNullable<Parameters<typeof Sandbox.create>[1]>['network']
    const create = (network: Network) =>
      Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000, network })

    /** What the far end says it saw; undefined when nothing was let through. */
    async function visit(sandbox: Sandbox, ...args: string[]): Promise<Seen | undefined> {
      const command = `curl -s -m 8 ${args.map((arg) => `'${arg}'`).join(' ')}; true`
      const { stdout } = await sandbox.commands.run(command)
      return stdout.startsWith('{') ? (JSON.parse(stdout) as Seen) : undefined
    }

    it('allow connections by name, and lead nowhere else', async () => {
      const sandbox = await create({ allowOut: ['allowed.test'], denyOut: [ALL_TRAFFIC] })
      assert.equal((await visit(sandbox, 'http://allowed.test/'))?.at, internet)
      assert.equal((await visit(sandbox, '-k', 'https://allowed.test/'))?.at, internet)
      for (const refused of ['http://other.test/', 'http://deep.allowed.test/', `http://${internet}/`]) {
        assert.equal(await visit(sandbox, refused), undefined, refused)
      }
      assert.equal(await visit(sandbox, '-k', 'https://other.test/'), undefined)
      assert.equal(await visit(sandbox, '-k', `https://${internet}/`), undefined)
      // A forged name leads to the host that really has it.
      const forged = await visit(sandbox, '-H', 'Host: allowed.test', `http://${elsewhere}/`)
      assert.equal(forged?.at, internet)
      const poisoned = ['--resolve', `allowed.test:443:${elsewhere}`, '-k', 'https://allowed.test/']
      assert.equal((await visit(sandbox, ...poisoned))?.at, internet)
      // Names that are not allowed are not even asked for.
      const ask = "import socket; socket.getaddrinfo('secret-data.other.test', 80)"
      assert.match((await sandbox.commands.run(`python3 -c "${ask}" 2>&1; true`)).stdout, /gaierror/)
      assert.equal(outside.count('secret-data'), 0)
      await sandbox.kill()
    })

    it('match wildcards, and never lead to internal addresses', async () => {
      const sandbox = await create({ allowOut: ['*.allowed.test', 'inside.test'], denyOut: [ALL_TRAFFIC] })
      assert.equal((await visit(sandbox, 'http://deep.allowed.test/'))?.at, internet)
      assert.equal(await visit(sandbox, 'http://allowed.test/'), undefined)
      assert.equal(await visit(sandbox, 'http://inside.test/'), undefined)
      await sandbox.kill()
    })

    it('change while the sandbox runs, and are kept over a pause', async () => {
      const sandbox = await create({ denyOut: [] })
      assert.equal((await visit(sandbox, 'http://other.test/'))?.at, elsewhere)
      await sandbox.updateNetwork({ allowOut: ['allowed.test'], denyOut: [ALL_TRAFFIC] })
      assert.equal(await visit(sandbox, 'http://other.test/'), undefined)
      await sandbox.pause()
      const again = await Sandbox.connect(sandbox.sandboxId, warren.client)
      assert.equal((await visit(again, 'http://allowed.test/'))?.at, internet)
      assert.equal(await visit(again, 'http://other.test/'), undefined)
      await again.updateNetwork({})
      assert.equal((await visit(again, 'http://other.test/'))?.at, elsewhere)
      await again.kill()
    })

    it('add a secret to requests that the sandbox never sees, with an authority that is trusted inside', async () => {
      const value = `hidden-${isolation}`
      await Secret.create('gate-key', value, warren.client)
      const headers = { 'X-Key': Secret.fill('gate-key') }
      const rules = { 'allowed.test': [{ transform: { headers } }] }
      const sandbox = await create({ allowOut: ['allowed.test'], denyOut: [ALL_TRAFFIC], rules })
      const keyOver = async (scheme: string) => {
        const seen = await visit(sandbox, '-H', 'X-Key: mine', `${scheme}://allowed.test/`)
        assert.equal(seen?.at, internet)
        return seen?.headers['x-key']
      }
      assert.deepEqual([await keyOver('http'), await keyOver('https')], ['mine', value])
      const traced = await sandbox.commands.run('curl -sk -X TRACE https://allowed.test/')
      assert.match(traced.stdout, /TRACE is not allowed to a host with a header rule/)
      const everywhere = { 'allowed.test': [{ transform: { headers, allowPlainHttp: true } }] }
      await sandbox.updateNetwork({ allowOut: ['allowed.test'], denyOut: [ALL_TRAFFIC], rules: everywhere })
      assert.deepEqual([await keyOver('http'), await keyOver('https')], [value, value])
      const python = "import urllib.request as r; print(r.urlopen('https://allowed.test/').status)"
      assert.equal((await sandbox.commands.run(`python3 -c "${python}"`)).stdout, '200\n')
      const looked = await sandbox.commands.run(
        `env; grep -rs '${value.replace('n-', '[n]-')}' /etc /home /run; true`,
      )
      assert.ok(!looked.stdout.includes(value))
      // A rule that comes while it runs is trusted as well.
      const later = await create({ allowOut: ['allowed.test'], denyOut: [ALL_TRAFFIC] })
      await later.updateNetwork({ allowOut: ['allowed.test'], denyOut: [ALL_TRAFFIC], rules })
      assert.equal((await visit(later, 'https://allowed.test/'))?.headers['x-key'], value)
      await Promise.all([sandbox.kill(), later.kill()])
    })

    it('send everything through a proxy, and nothing if it is down', async () => {
      const proxy = (port: number) => ({ egressProxy: { address: `proxy.test:${port}` } })
      const inside = { egressProxy: { address: `inside.test:${socksPort}` } }
      await assert.rejects(create(inside), /address of an internal network/)
      await assert.rejects(create({ egressProxy: { address: 'nowhere.test:1' } }), /has no IPv4 address/)
      const sandbox = await create(proxy(socksPort))
      assert.equal((await visit(sandbox, 'http://allowed.test/'))?.by, internet)
      // The proxy is beside the host it leads to, and not this machine.
      await outside.sees(/carried (?:allowed\.test|198\.51\.100\.7) 80/)
      await sandbox.updateNetwork({ egressProxy: { address: `${elsewhere}:1081` } })
      assert.equal(await visit(sandbox, 'http://allowed.test/'), undefined)
      await sandbox.kill()
    })

    it('hide the password of a proxy and the values of headers from everybody else', async () => {
      const [password, value] = [`password-${newUUID()}`, `header-${newUUID()}`]
      const rule = { transform: { headers: { 'X-Key': value }, allowPlainHttp: true } }
      const sandbox = await create({
        egressProxy: { address: `proxy.test:${socksPort}`, username: 'me', password },
        rules: { 'allowed.test': [rule] },
      })
      const counts = () => [outside.count(`login me ${password}`), outside.count(`key ${value}`)]
      assert.ok(await visit(sandbox, 'http://allowed.test/quiet'))
      await eventually(async () => assert.deepEqual(counts(), [1, 1]))
      const paths = [`/sandboxes/${sandbox.sandboxId}`, '/v2/sandboxes', '/sandboxes']
      const nowhere = async () => {
        for (const path of paths) assert.ok(!(await (await warren.api(path)).text()).includes(password), path)
        assert.deepEqual(filesWith(warren.dataFolder, password, value), [])
        assert.deepEqual([...processesWith(password), ...processesWith(value)], [])
      }
      await nowhere()
      const { network } = (await (await warren.api(paths[0]!)).json()) as { network: object }
      assert.deepEqual(network, {
        egressProxy: { address: `proxy.test:${socksPort}`, username: 'me' },
        rules: { 'allowed.test': [rule] },
      })
      assert.equal(await sandbox.pause(), true)
      await nowhere()
      await warren.crash()
      warren = await startWarren(isolation, { keepData: true, settings })
      const again = await Sandbox.connect(sandbox.sandboxId, warren.client)
      assert.ok(await visit(again, 'http://allowed.test/quiet'))
      await eventually(async () => assert.deepEqual(counts(), [2, 2]))
      await again.kill()
      await nowhere()
    })

    it('let nothing through while Warren is down, and work again after it', async () => {
      const sandbox = await create({ allowOut: ['allowed.test'], denyOut: [ALL_TRAFFIC] })
      assert.equal((await visit(sandbox, 'http://allowed.test/'))?.at, internet)
      const loop =
        'while sleep 0.2; do curl -s -m 2 http://allowed.test/ -o /dev/null; echo $? >> /tmp/seen; done'
      await sandbox.commands.run(loop, { background: true, timeoutMs: 0 })
      await warren.crash()
      await new Promise((resolve) => setTimeout(resolve, 3000))
      warren = await startWarren(isolation, { keepData: true, settings })
      await eventually(async () => {
        assert.equal((await visit(sandbox, 'http://allowed.test/'))?.at, internet)
      })
      const codes = (await sandbox.files.read('/tmp/seen')).trim().split('\n')
      assert.ok(codes.some((code) => code !== '0'))
      assert.equal(await visit(sandbox, 'http://other.test/'), undefined)
      await sandbox.kill()
    })
  })
}
