/** What the builder methods of the unmodified JavaScript clients come to in a sandbox, on both runtimes. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import * as current from 'e2b'
import { buildContext, listening, sayIn } from '../support/building.ts'
import { javaScriptReleases } from '../support/releases.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

// The two releases share the surface used here; their type declarations are not assignable to each other.
const { Template } = current

const files = {
  'one.txt': 'one',
  'run.sh': '#!/bin/sh\necho ran',
  'folder/test.txt': 'in the folder',
  'folder/deep/er.txt': 'deep',
  'folder/.hidden': 'hidden',
  'folder/good.link': '->test.txt',
  'links/broken.link': '->nowhere',
  'links/kept.txt': 'kept',
  'folder/secret.key': 'secret',
  'folder/note.tmp': 'scratch',
  'linked.txt': '->one.txt',
  '.dockerignore': '**/*.key\n',
}

for (const isolation of isolations) {
  describe(`templates, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    for (const [version, client] of javaScriptReleases(isolation, 'same')) {
      const name = (text: string) => `${text}-${version.replace('.', '-')}`

      it(`e2b ${version} builds from the base with commands, folders, users and variables`, async () => {
        const template = client
          .Template()
          .fromBaseImage()
          .runCmd('echo "first of $(whoami) in $(pwd)" > log.txt')
          .runCmd(['echo a >> log.txt', 'echo b >> log.txt'])
          .runCmd('whoami >> /home/user/log.txt', { user: 'root' })
          .runCmd(
            "cat >> log.txt <<END\nline with 'quotes' and $HOME\n\nlast\nEND\necho 'after it' >> log.txt",
          )
          .makeDir('made', { mode: 0o700 })
          .makeDir(['/opt/a', '/opt/b'], { user: 'root' })
          .runCmd('touch gone.txt old.txt')
          .remove('gone.txt')
          .remove('/opt/b', { recursive: true, force: true, user: 'root' })
          .rename('old.txt', 'new.txt')
          .makeSymlink('new.txt', 'link.txt')
          .setEnvs({ FIRST: 'one', SECOND: '$FIRST and two', PATH: "/opt/it's/bin:$PATH" })
          .setEnvs({ THIRD: `\${SECOND} and three of $HOME` })
          .runCmd('echo "$THIRD" >> log.txt')
          .setWorkdir('/srv/app')
          .setUser('builder')
          .setWorkdir('own')
          .runCmd('touch made-here')
        const options = { ...warren.client, cpuCount: 1, memoryMB: 256 }
        const built = await client.Template.build(template, name('methods'), options)
        const sandbox = await client.Sandbox.create(name('methods'), {
          ...warren.client,
          timeoutMs: 3_600_000,
        })
        try {
          const run = async (command: string) =>
            (await sandbox.commands.run(command)).stdout.trimEnd().split('\n')
          assert.deepEqual(await run('cat /home/user/log.txt'), [
            ...['first of user in /home/user', 'a', 'b', 'root'],
            ...[
              "line with 'quotes' and /home/user",
              '',
              'last',
              'after it',
              'one and two and three of /home/user',
            ],
          ])
          assert.deepEqual(await run('whoami; pwd; echo $SECOND; ls'), [
            'builder',
            '/srv/app/own',
            'one and two',
            'made-here',
          ])
          assert.deepEqual(
            await run(
              'cd /home/user; stat -c "%n %a %U" made /srv/app /srv/app/own /opt/a; readlink link.txt',
            ),
            [
              ...[
                'made 700 user',
                '/srv/app 755 user',
                '/srv/app/own 755 builder',
                '/opt/a 755 root',
                'new.txt',
              ],
            ],
          )
          assert.deepEqual(await run('cd /home/user; ls; ls /opt'), [
            'link.txt',
            'log.txt',
            'made',
            'new.txt',
            'a',
          ])
          assert.match((await run('echo $PATH'))[0]!, /(^|:)\/opt\/it's\/bin:.*\/usr\/bin/)
          const info = await sandbox.getInfo()
          assert.deepEqual([info.cpuCount, info.memoryMB, info.templateId], [1, 256, built.templateId])
          assert.equal(
            (await client.Template.getTags(built.templateId, warren.client))[0]?.buildId,
            built.buildId,
          )
        } finally {
          await sandbox.kill()
        }
      })

      it(`e2b ${version} copies files, folders, globs and links`, async () => {
        using context = await buildContext(files)
        const template = client
          .Template({ fileContextPath: context.folder, fileIgnorePatterns: ['**/*.tmp'] })
          .fromBaseImage()
          .copy('one.txt', 'plain.txt')
          .copy('one.txt', 'into/')
          .copy('one.txt', '/srv/deep/er/there.txt', { user: 'root', mode: 0o640 })
          .copy('folder', 'whole')
          .copy('folder/*', 'folder')
          .copy(['one.txt', 'run.sh'], '/srv/pair/', { mode: 0o755 })
          .copyItems([
            { src: 'folder/deep', dest: 'items/', user: 'root' },
            { src: 'run.sh', dest: 'items/run', forceUpload: true },
          ])
          .copy('links/*', 'links')
          .copy('linked.txt', 'link.txt')
          .copy('linked.txt', 'resolved.txt', { resolveSymlinks: true })
          .runCmd('cat folder/test.txt')
        const { lines, options } = listening(warren)
        await client.Template.build(template, name('copies'), options)
        assert.ok(
          lines.some((line) => line.endsWith('[stdout]: in the folder')),
          lines.join('\n'),
        )
        const show = `find folder into items links whole *.txt /srv/* -printf '%p %y %m %u %l\\n' | sort; cat resolved.txt; echo`
        assert.deepEqual((await sayIn(warren, name('copies'), show)).trimEnd().split('\n'), [
          '/srv/deep d 755 root ',
          '/srv/deep/er d 755 root ',
          '/srv/deep/er/there.txt f 640 root ',
          '/srv/pair d 755 user ',
          '/srv/pair/one.txt f 755 user ',
          '/srv/pair/run.sh f 755 user ',
          'folder d 755 user ',
          'folder/.hidden f 644 user ',
          'folder/er.txt f 644 user ',
          'folder/good.link l 777 user test.txt',
          'folder/test.txt f 644 user ',
          'into d 755 user ',
          'into/one.txt f 644 user ',
          'items d 755 root ',
          'items/er.txt f 644 root ',
          'items/run f 644 user ',
          'link.txt l 777 user one.txt',
          'links d 755 user ',
          'links/broken.link l 777 user nowhere',
          'links/kept.txt f 644 user ',
          'plain.txt f 644 user ',
          'resolved.txt f 644 user ',
          'whole d 755 user ',
          'whole/.hidden f 644 user ',
          'whole/deep d 755 user ',
          'whole/deep/er.txt f 644 user ',
          'whole/good.link l 777 user test.txt',
          'whole/test.txt f 644 user ',
          'one',
        ])
      })
    }

    // What a Dockerfile and another template add to that are the same steps, under any isolation.
    if (isolation !== 'container') return

    it('builds from a Dockerfile that the client reads', async () => {
      using context = await buildContext({
        'app/main.txt': 'main',
        'app/skipped.log': 'log',
        '.dockerignore': '*/*.log',
      })
      const dockerfile = [
        'FROM e2bdev/base',
        'ARG WHO=world',
        'ENV GREETING=hello-$WHO PLAIN=1',
        'WORKDIR /app',
        'COPY --chown=user app /app/',
        'RUN echo "$GREETING" > greeting.txt && \\',
        '    echo more >> greeting.txt',
        'CMD ["python3", "-m", "http.server", "8000"]',
      ].join('\n')
      const template = Template({ fileContextPath: context.folder }).fromDockerfile(dockerfile)
      await Template.build(
        (template as current.TemplateBuilder).setReadyCmd(current.waitForPort(8000)),
        'docker',
        warren.client,
      )
      const said = await sayIn(
        warren,
        'docker',
        'whoami; pwd; cd /app; cat greeting.txt; ls; stat -c %U main.txt; curl -s localhost:8000/greeting.txt | wc -l',
      )
      assert.deepEqual(said.trim().split('\n'), [
        'user',
        '/app',
        'hello-world',
        'more',
        'greeting.txt',
        'main.txt',
        'user',
        '2',
      ])
    })

    it('builds on another template, with its files, variables, user and folder', async () => {
      const parent = Template()
        .fromBaseImage()
        .setEnvs({ ONE: '1' })
        .setWorkdir('/srv/parent')
        .runCmd('echo p > p')
      await Template.build(parent, 'parent', warren.client)
      const child = Template().fromTemplate('parent').setEnvs({ TWO: '$ONE and 2' }).runCmd('echo c > c')
      await Template.build(child, 'child', warren.client)
      assert.equal(await sayIn(warren, 'child', 'pwd; cat p c; echo $TWO'), '/srv/parent\np\nc\n1 and 2\n')
      await assert.rejects(
        Template.build(Template().fromTemplate('no-such'), 'orphan', warren.client),
        /no-such/,
      )
    })
  })
}
