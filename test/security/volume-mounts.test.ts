/** Volumes mounted through links of a template or of a sandbox, at files, and at odd paths (J7). */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox, Template, Volume } from 'e2b'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const links = [
  'ln -s /dev /to-dev',
  'ln -s /.warren /to-agent',
  'ln -s ../../proc/self /to-process',
  'ln -s / /to-root',
  'ln -s /circle /circle',
  'ln -s /etc/passwd /to-file',
  'mkdir -p /srv/real && ln -s /srv/real /to-real',
]

const rejected = {
  '/to-dev': /leads to "\/dev"/,
  '/to-dev/shm': /leads to "\/dev\/shm"/,
  '/to-agent/lib': /leads to "\/.warren\/lib"/,
  '/to-process/root': /leads to "\/proc\/self\/root"/,
  '/to-root': /leads to "\/"/,
  '/to-root/.warren/lib': /leads to "\/.warren\/lib"/,
  '/circle/x': /links lead in a circle/,
  '/to-file': /"\/etc\/passwd" is a file/,
  '/etc/passwd/x': /"\/etc\/passwd" is a file/,
  [`/${'x'.repeat(256)}`]: /more than 255 bytes/,
  [`/${'ü'.repeat(200)}`]: /more than 255 bytes/,
  ['/deep'.repeat(820)]: /at most 1024 bytes/,
  '/\ud800': /Invalid path/,
}

for (const isolation of isolations) {
  describe(`volumes mounted where they must not be, ${isolation}`, () => {
    let warren: Warren
    let name: string
    before(async () => {
      warren = await startWarren(isolation, { settings: { ...noWarmPool, WARREN_VOLUME_MB: '64' } })
      const linked = Template().fromTemplate('base').runCmd(links.join(' && '), { user: 'root' })
      await Template.build(linked, 'linked', { ...warren.client, cpuCount: 1, memoryMB: 512 })
      name = (await Volume.create('hostile', warren.client)).name
    })
    after(() => warren?.stop())

    const create = (path: string) =>
      warren.api('/v2/sandboxes', { body: { templateID: 'linked', volumeMounts: [{ name, path }] } })
    const running = async () => ((await (await warren.api('/v2/sandboxes')).json()) as unknown[]).length

    it('get 400 with the reason, and leave nothing behind', async () => {
      for (const [path, why] of Object.entries(rejected)) {
        const answer = await create(path)
        const text = await answer.text()
        assert.equal(answer.status, 400, `${path.slice(0, 40)}: ${text}`)
        assert.match(JSON.parse(text).message, why)
      }
      assert.equal(await running(), 0)
    })

    it('are mounted behind a link that leads to a folder, and at names with odd characters', async () => {
      for (const path of ['/to-real', '/mnt/a b:c,d=e\\f"g%h', '/mnt/grüße']) {
        const answer = await create(path)
        assert.equal(answer.status, 201, await answer.clone().text())
        const { sandboxID } = (await answer.json()) as { sandboxID: string }
        const sandbox = await Sandbox.connect(sandboxID, warren.client)
        await sandbox.files.write(`${path}/mark`, path)
        assert.equal(await sandbox.files.read(`${path}/mark`), path)
        const { stdout } = await sandbox.commands.run('ls /.warren/node; ls /dev/null')
        assert.match(stdout, /\/\.warren\/node\n\/dev\/null/)
        await sandbox.kill()
      }
    })

    it('are not mounted over the agent by a link that root inside creates before a start without memory', async () => {
      const volumeMounts = { '/data/lib': name }
      const sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 600_000, volumeMounts })
      const turn = 'echo evil > /data/lib/libc.so.6; mv /data /old && ln -s /.warren /data'
      await sandbox.commands.run(turn, { user: 'root' })
      const paused = await warren.api(`/sandboxes/${sandbox.sandboxId}/pause`, { body: { memory: false } })
      assert.equal(paused.status, 204)
      const answer = await warren.api(`/sandboxes/${sandbox.sandboxId}/connect`, { body: { timeout: 60 } })
      assert.equal(answer.status, 400, await answer.clone().text())
      assert.match(await answer.text(), /leads to .*\/\.warren\/lib/)
      await sandbox.kill()
    })
  })
}
