/** Steps that are out of the ordinary: users that are numbers, and much that is written, on both runtimes. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Template } from 'e2b'
import { buildContext, listening, sayIn } from '../support/building.ts'
import { isolations, startWarren, type Warren } from '../support/warren.ts'

for (const isolation of isolations) {
  describe(`steps of templates, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await startWarren(isolation)
    })
    after(() => warren?.stop())

    it('USER takes numbers and groups, and commands, copies and sandboxes follow', async () => {
      using context = await buildContext({ 'file.txt': 'file\n' })
      // As Docker has it: who is not known by a number is in the group of root, and has no other.
      const cases: [user: string, ids: string, groups: string][] = [
        ['1000', '1000 1000', '1000'],
        ['1000:1000', '1000 1000', '1000'],
        ['4242', '4242 0', '0'],
        ['4242:4343', '4242 4343', '4343'],
        ['app:app', '', ''],
        ['app:staff', '', ''],
      ]
      for (const [user, ids, groups] of cases) {
        const name = `user-${user.replace(':', '-')}`
        const template = Template({ fileContextPath: context.folder })
          .fromBaseImage()
          .setUser(user)
          .runCmd(
            'echo $(id -u) $(id -g) > /tmp/ids; id -G > /tmp/groups; id -nu > /tmp/name; id -ng > /tmp/group; true',
          )
          .copy('file.txt', '/tmp/copied/')
        await Template.build(template, name, warren.client)
        const told = await sayIn(
          warren,
          name,
          'cat /tmp/ids /tmp/groups; stat -c "%u %g" /tmp/copied/file.txt; echo $(id -u) $(id -g); cat /tmp/name /tmp/group 2>/dev/null',
        )
        const [built, all, copied, now, userName, group] = told.split('\n')
        if (ids !== '')
          assert.deepEqual([built, all?.split(' ')[0], copied, now], [ids, groups, ids, ids], user)
        else assert.deepEqual([`${userName}:${group}`, copied, now], [user, built, built], user)
      }
      const bad = Template().fromBaseImage().setUser('-x')
      await assert.rejects(Template.build(bad, 'user-bad', warren.client), /that is no user/)
    })

    it('a step that wrote much is whole in the next, in the sandbox, and in the cache', async () => {
      const template = () =>
        Template()
          .fromBaseImage()
          .runCmd('head -c 100000000 /dev/urandom > big; sha256sum big > sum')
          .runCmd('sha256sum -c sum && echo small > small')
      await Template.build(template(), 'big', warren.client)
      assert.equal(await sayIn(warren, 'big', 'sha256sum -c sum; cat small'), 'big: OK\nsmall\n')
      const { lines, options } = listening(warren)
      await Template.build(template().runCmd('cat small > after; rm big'), 'big-again', options)
      assert.equal(lines.filter((line) => line.startsWith('CACHED')).length, 2)
      assert.equal(await sayIn(warren, 'big-again', 'cat after; ls'), 'small\nafter\nsmall\nsum\n')
      assert.equal(await sayIn(warren, 'big', 'sha256sum -c sum'), 'big: OK\n')
    })
  })
}
