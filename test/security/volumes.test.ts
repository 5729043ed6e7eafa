/** What a hostile sandbox leaves in a volume, and what other teams may learn of it. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox, Volume } from 'e2b'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

for (const isolation of isolations) {
  describe(`a volume in hostile hands, ${isolation}`, () => {
    let warren: Warren
    let volume: Volume
    let sandbox: Sandbox
    let content: { apiUrl: string }
    before(async () => {
      warren = await joinWarren(isolation)
      content = { apiUrl: warren.url }
      volume = await Volume.create(`hostile-${isolation}`, warren.client)
      const volumeMounts = { '/mnt/data': volume }
      sandbox = await Sandbox.create('base', { ...warren.client, timeoutMs: 3_600_000, volumeMounts })
    })
    after(async () => {
      await sandbox?.kill()
      if (volume) await Volume.destroy(volume.volumeId, warren.client)
      await warren?.stop()
    })
    const asRoot = async (command: string) =>
      (await sandbox.commands.run(`cd /mnt/data && { ${command}; } 2>&1`, { user: 'root' })).stdout.trim()

    it('links to the host lead nowhere, in any call', async () => {
      await asRoot(
        'ln -s /etc/shadow file; ln -s /etc etc-link; ln -s ../../../../.. up; ln -s /proc/self/root magic; ln -s /dev/zero zero',
      )
      const paths = [
        '/file',
        '/etc-link/shadow',
        '/up/etc/shadow',
        '/magic/etc/shadow',
        '/zero',
        '/../../etc/shadow',
      ]
      for (const path of paths) {
        await assert.rejects(volume.readFile(path, content), /not found|404/, path)
        await assert.rejects(volume.updateMetadata(path, { mode: 0o777 }, content), /not found|404/, path)
      }
      for (const path of ['/etc-link/new', '/up/tmp/new', '/magic/tmp/new']) {
        await assert.rejects(volume.writeFile(path, 'x', { ...content, force: true }), /not found|404/, path)
        await assert.rejects(volume.list(path.replace('/new', ''), content), /not found|404/, path)
      }
      assert.equal((await volume.getInfo('/file', content)).target, '/etc/shadow')
      await asRoot('rm -f file etc-link up magic zero')
    })

    it('is not mounted over a file, and its owner gets the reason', async () => {
      const body = { templateID: 'base', volumeMounts: [{ name: volume.name, path: '/etc/passwd' }] }
      const answer = await warren.api('/v2/sandboxes', { body })
      assert.equal(answer.status, 400)
      assert.match(
        ((await answer.json()) as { message: string }).message,
        /"\/etc\/passwd" is a file\. Choose/,
      )
    })

    it('special files are never opened, and devices and setuid programs have no power', async () => {
      await asRoot(
        'mkfifo fifo; mknod null c 1 3; mknod disk b 7 0; cp /usr/bin/id own-id; chmod 4755 own-id; true',
      )
      // gVisor keeps fifos to itself.
      const isThere = isolation === 'container'
      await assert.rejects(volume.readFile('/fifo', content), isThere ? /400/ : /not found/)
      if (isThere) assert.equal((await volume.getInfo('/fifo', content)).type, 'unknown')
      const { stdout } = await sandbox.commands.run(
        '/mnt/data/own-id -u; head -c1 /mnt/data/disk >/dev/null 2>&1; echo $?',
      )
      assert.deepEqual(stdout.trim().split('\n'), ['1000', '1'])
      assert.match(await asRoot('ln /etc/passwd twin; true'), /cross-device|Invalid/i)
      await asRoot('rm -f fifo null disk own-id twin')
    })

    it('a process whose folder is removed from outside cannot leave the volume', async () => {
      await asRoot('mkdir -p home/below')
      const climb =
        'cd /mnt/data/home/below; touch /tmp/inside; while [ -e /mnt/data/home ]; do sleep 0.1; done; cd ..; ls -a .. ../..'
      const climbing = await sandbox.commands.run(`${climb} 2>&1; true`, {
        background: true,
        timeoutMs: 0,
        user: 'root',
      })
      await sandbox.commands.run('while ! [ -e /tmp/inside ]; do sleep 0.1; done')
      await volume.remove('/home', content)
      const { stdout } = await climbing.wait()
      assert.doesNotMatch(stdout, /incoming|lost\+found|removed-/)
    })

    it('a token opens its own volume only, and other teams cannot distinguish a volume from a missing one', async () => {
      const headers = { 'X-Admin-Token': warren.adminToken }
      const asAdmin = async (path: string, body: object) =>
        (await warren.api(path, { headers, key: null, body })).json() as Promise<Record<string, string>>
      const { teamID } = await asAdmin('/admin/teams', { name: `other ${isolation} ${Date.now()}` })
      const { key } = await asAdmin(`/admin/teams/${teamID}/api-keys`, { name: 'test' })
      const unknown = '00000000-0000-4000-8000-000000000000'
      const asked = async (method: string, id: string) => {
        const answer = await warren.api(`/volumes/${id}`, { method, key: key! })
        return [answer.status, (await answer.text()).replace(id, 'ID')]
      }
      for (const method of ['GET', 'DELETE']) {
        assert.deepEqual(await asked(method, volume.volumeId), await asked(method, unknown))
        assert.equal((await asked(method, unknown))[0], 404)
      }
      const create = async (name: string) => {
        const body = { templateID: 'base', volumeMounts: [{ name, path: '/mnt/data' }] }
        const answer = await warren.api('/v2/sandboxes', { key: key!, body })
        return [answer.status, (await answer.text()).replace(name, 'NAME')]
      }
      assert.deepEqual(await create(volume.name), await create('nothing-of-this-name'))
      const open = async (id: string, token: string) => {
        const opened = { headers: { authorization: `Bearer ${token}` }, key: null }
        const answer = await warren.api(`/volumecontent/${id}/path?path=/`, opened)
        return [answer.status, await answer.text()]
      }
      const made = (await (await warren.api('/volumes', { key: key!, body: { name: 'theirs' } })).json()) as {
        volumeID: string
        token: string
      }
      assert.equal((await open(made.volumeID, made.token))[0], 200)
      const foreign = await open(volume.volumeId, made.token)
      assert.equal(foreign[0], 401)
      assert.deepEqual(foreign, await open(unknown, made.token))
      await warren.api(`/admin/teams/${teamID}?force=true`, { method: 'DELETE', headers, key: null })
    })
  })
}
