/** Small things in which E2B's own suite found Warren different from E2B, with real sandboxes on both runtimes. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { Sandbox, Template } from 'e2b'
import { sayIn } from '../support/building.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

for (const isolation of isolations) {
  describe(`as on E2B, ${isolation}`, () => {
    let warren: Warren
    let sandbox: Sandbox
    before(async () => {
      warren = await joinWarren(isolation)
      sandbox = await Sandbox.create({ ...warren.client, timeoutMs: 600_000 })
    })
    after(() => warren?.stop())

    it('commands of any user begin in the folder of the template, and relative names are below its home', async () => {
      const pwd = async (options: object) => (await sandbox.commands.run('pwd', options)).stdout.trim()
      assert.equal(await pwd({ user: 'root' }), '/home/user')
      const { path } = await sandbox.files.write('below/file', 'x', { user: 'root' })
      assert.equal(path, '/root/below/file')
      assert.equal(await pwd({ user: 'root', cwd: 'below' }), '/root/below')
      assert.equal(await sandbox.files.read('below/file', { user: 'root' }), 'x')
    })

    it('nobody finds a process whose kill was answered', async () => {
      for (let count = 0; count < 50; count++) {
        const command = await sandbox.commands.run('sleep 600', { background: true })
        assert.equal(await command.kill(), true)
        const found = `kill -0 ${command.pid} 2>/dev/null && echo found || echo gone`
        assert.equal((await sandbox.commands.run(found, { user: 'root' })).stdout, 'gone\n')
        await command.wait().catch(() => {})
      }
    })

    it('a pause waits for a snapshot that is being taken', async () => {
      const statuses: number[] = []
      for (let count = 0; count < 5; count++) {
        const { sandboxId } = await Sandbox.create({ ...warren.client, timeoutMs: 600_000 })
        const ask = (verb: string) => warren.api(`/sandboxes/${sandboxId}/${verb}`, { body: {} })
        const [snapshot, pause] = await Promise.all([ask('snapshots'), ask('pause')])
        assert.equal(pause.status, 204, await pause.text())
        // The pause may come first.
        assert.ok([201, 404, 409].includes(snapshot.status), String(snapshot.status))
        statuses.push(snapshot.status)
        await Sandbox.kill(sandboxId, warren.client)
      }
      assert.ok(statuses.includes(201), String(statuses))
    })

    it('users may change what root has put into /usr/local', async () => {
      const made = 'mkdir -p /usr/local/a/b && echo 1 > /usr/local/a/b/file && chmod 700 /usr/local/a/b'
      const builder = Template().fromBaseImage().setUser('root').runCmd(made).setUser('user')
      await Template.build(builder, 'open-local', warren.client)
      const change = 'echo 2 >> /usr/local/a/b/file && touch /usr/local/a/b/new && cat /usr/local/a/b/file'
      assert.equal(await sayIn(warren, 'open-local', change), '1\n2\n')
    })

    it('the metrics of a team show a sandbox at once', async () => {
      const path = `/teams/${warren.team}/metrics/max?metric=concurrent_sandboxes`
      const { value } = (await (await warren.api(path)).json()) as { value: number }
      assert.ok(value >= 1)
    })

    it('a browser gets a page', async () => {
      const port = 3210
      const routed = ['-H', `E2b-Sandbox-Id: ${sandbox.sandboxId}`, '-H', `E2b-Sandbox-Port: ${port}`]
      const args = ['-s', '-A', 'Mozilla/5.0 (X11; Linux x86_64)', ...routed, `${warren.url}/`]
      const page = execFileSync('curl', args, { encoding: 'utf8' })
      assert.match(page, /^<html[ >].*<\/html>$/s)
      for (const words of [sandbox.sandboxId, `no service running on port ${port}`])
        assert.ok(page.includes(words), page)
    })
  })
}
