/** Steps that are out of the ordinary: users that are numbers, and much that is written, on both runtimes. */
import assert from 'node:assert/strict'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Template } from 'e2b'
import { makeAuthority } from '../../src/lib/certificates.ts'
import { buildContext, listening, sayIn } from '../support/building.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

for (const isolation of isolations) {
  describe(`steps of templates, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    it('USER accepts numbers and groups, and commands, copies and sandboxes use them', async () => {
      using context = await buildContext({ 'file.txt': 'file\n' })
      // As Docker has it: who is not known by a number is in the group of root, and has no other.
      const numbers: [user: string, ids: string, groups: string][] = [
        ['1000', '1000 1000', '1000'],
        ['1000:1000', '1000 1000', '1000'],
        ['4242', '4242 0', '0'],
        ['4242:4343', '4242 4343', '4343'],
      ]
      const names = ['app:app', 'app:staff']
      const folderOf = (user: string) => `/tmp/as-${user.replace(':', '-')}`
      const writeIDs = '(echo $(id -u) $(id -g); id -G; echo $(id -nu; id -ng)) > told 2>/dev/null || true'
      /** All of them, one after the other; the sandbox is the last one's. */
      const build = async (name: string, users: string[]) => {
        const builder = Template({ fileContextPath: context.folder }).fromBaseImage()
        for (const user of users) {
          const folder = folderOf(user)
          builder
            .setUser(user)
            .runCmd(`mkdir ${folder} && cd ${folder} && ${writeIDs}`)
            .copy('file.txt', `${folder}/`)
        }
        await Template.build(builder as Parameters<typeof Template.build>[0], name, warren.client)
        const reports = users.map((user) => `cd ${folderOf(user)}; cat told; stat -c "%u %g" file.txt`)
        const said = await sayIn(warren, name, [...reports, 'echo $(id -u) $(id -g)'].join('; '))
        const lines = said.trimEnd().split('\n')
        const parts = users.map((_, at) => lines.slice(4 * at, 4 * at + 4))
        return { parts, own: lines.at(-1) }
      }
      const [numbered, named] = await Promise.all([
        build(
          'user-by-number',
          numbers.map(([user]) => user),
        ),
        build('user-by-name', names),
      ])
      for (const [at, [user, ids, groups]] of numbers.entries()) {
        const [built, all, , copied] = numbered.parts[at]!
        assert.deepEqual([built, all?.split(' ')[0], copied], [ids, groups, ids], user)
      }
      assert.equal(numbered.own, numbers.at(-1)![1])
      for (const [at, user] of names.entries()) {
        const [built, , name, copied] = named.parts[at]!
        assert.deepEqual([name?.replace(' ', ':'), copied], [user, built], user)
      }
      assert.equal(named.own, named.parts.at(-1)![0])
      const bad = Template().fromBaseImage().setUser('-x')
      await assert.rejects(Template.build(bad, 'user-bad', warren.client), /that is no user/)
    })

    it('an inherited service runs in the folder and as the user of its own template', async () => {
      const parent = Template()
        .fromBaseImage()
        .setUser('root')
        .setWorkdir('/srv')
        .setEnvs({ WHO: 'parent' })
        .setStartCmd('echo "$(id -un) $PWD $WHO" > /tmp/started; sleep infinity', 'test -s /tmp/started')
      await Template.build(parent, 'serving', warren.client)
      const child = Template()
        .fromTemplate('serving')
        .setUser('user')
        .setWorkdir('/home/user/app')
        .setEnvs({ WHO: 'child' })
        .runCmd('sudo rm -f /tmp/started')
      await Template.build(child, 'inheriting', warren.client)
      const output = await sayIn(warren, 'inheriting', 'cat /tmp/started; echo $(id -un) $PWD $WHO')
      assert.equal(output, 'root /srv parent\nuser /home/user/app child\n')
    })

    it('COPY changes no existing folder, also deep inside; WORKDIR belongs to the user and its group', async () => {
      using context = await buildContext({
        'root/etc/mine': 'a\n',
        'root/srv/new/b': 'b\n',
        'root/tmp/.c': 'c\n',
      })
      const folders = ['root', 'root/etc', 'root/srv', 'root/srv/new', 'root/tmp']
      for (const folder of folders) await chmod(join(context.folder, folder), 0o700)
      const template = Template({ fileContextPath: context.folder })
        .fromBaseImage()
        .copy('root', '/')
        .copy('root/tmp', '/opt', { user: 'root', mode: 0o750 })
        .setWorkdir('/srv/new')
        .setWorkdir('/home/user/made')
        .setUser('4242')
        .setWorkdir('/opt/numbered')
        .setUser('user')
      await Template.build(template, 'copied-onto', warren.client)
      const inTheWay = Template().fromBaseImage().setWorkdir('/etc/passwd')
      await assert.rejects(Template.build(inTheWay, 'in-the-way', warren.client), /is not a directory/)
      const paths =
        '/ /etc /etc/mine /tmp /tmp/.c /srv /srv/new /srv/new/b /opt /opt/.c /home/user/made /opt/numbered'
      const output = await sayIn(warren, 'copied-onto', `sudo stat -c '%a %u:%g %n' ${paths}`)
      assert.deepEqual(output.trim().split('\n'), [
        ...['755 0:0 /', '755 0:0 /etc', '644 1000:1000 /etc/mine', '1777 0:0 /tmp', '644 1000:1000 /tmp/.c'],
        ...['755 0:0 /srv', '700 1000:1000 /srv/new', '644 1000:1000 /srv/new/b'],
        ...['755 0:0 /opt', '750 0:0 /opt/.c', '755 1000:1000 /home/user/made', '755 4242:0 /opt/numbered'],
      ])
    })

    it('a step that wrote much is complete in the next step, in the sandbox, and in the cache', async () => {
      const template = () =>
        Template()
          .fromBaseImage()
          .runCmd('head -c 40000000 /dev/urandom > big; sha256sum big > sum')
          .runCmd('sha256sum -c sum && echo small > small')
      await Template.build(template(), 'big', warren.client)
      assert.equal(await sayIn(warren, 'big', 'sha256sum -c sum; cat small'), 'big: OK\nsmall\n')
      const { lines, options } = listening(warren)
      await Template.build(template().runCmd('cat small > after; rm big'), 'big-again', options)
      assert.equal(lines.filter((line) => line.startsWith('CACHED')).length, 2)
      assert.equal(await sayIn(warren, 'big-again', 'cat after; ls'), 'small\nafter\nsmall\nsum\n')
      assert.equal(await sayIn(warren, 'big', 'sha256sum -c sum'), 'big: OK\n')
    })

    // What follows is written into the build or run as a step, under any isolation.
    if (isolation !== 'container') return

    it('an authority that a step put into the image is trusted', async () => {
      const { certificate } = makeAuthority('of a template')
      const folder = '/usr/local/share/ca-certificates'
      const add = `cat > ${folder}/own.crt <<'END'\n${certificate}\nEND`
      const template = Template().fromBaseImage().setUser('root').runCmd(add)
      await Template.build(template, 'trusting', warren.client)
      const verify = `openssl verify -CAfile /etc/ssl/certs/ca-certificates.crt ${folder}/own.crt`
      assert.equal(await sayIn(warren, 'trusting', verify), `${folder}/own.crt: OK\n`)
    })

    it('a template that is based on another one inherits its service', async () => {
      const port = (number: number) => `curl -s -o /dev/null localhost:${number}`
      const parent = Template().fromBaseImage().setStartCmd('python3 -m http.server 8123', port(8123))
      await Template.build(parent, 'with-service', warren.client)
      const { lines, options } = listening(warren)
      await Template.build(
        Template().fromTemplate('with-service').runCmd('echo mine > mine'),
        'heir',
        options,
      )
      assert.ok(lines.includes('Running start command: python3 -m http.server 8123'), lines.join('\n'))
      assert.equal(await sayIn(warren, 'heir', 'cat mine; curl -s localhost:8123/mine'), 'mine\nmine\n')
      const own = Template()
        .fromTemplate('with-service')
        .setStartCmd('python3 -m http.server 8124', port(8124))
      await Template.build(own, 'own-service', warren.client)
      assert.equal(
        await sayIn(warren, 'own-service', `${port(8124)} && ! ${port(8123)} && echo own`),
        'own\n',
      )
    })
  })
}
