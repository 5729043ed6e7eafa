/** Builds that Warren's end cuts short, templates that change the runtime, and the command line that makes them. */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { Sandbox, Template, waitForPort } from 'e2b'
import { delay } from '../../src/lib/clock.ts'
import { buildContext, buildsOf, sayIn } from '../support/building.ts'
import { momentsOf } from '../support/count-of.ts'
import { e2b } from '../support/e2b-cli.ts'
import { settledTraces } from '../support/traces.ts'
import { isolations, noWarmPool, startWarren, type Warren } from '../support/warren.ts'

const settings = noWarmPool

for (const isolation of isolations) {
  describe(`templates through it all, ${isolation}`, () => {
    let warren: Warren
    afterEach(() => warren?.stop())

    it('a build that was cut short is an error, leaves nothing, and can be made again', async () => {
      warren = await startWarren(isolation, { settings })
      // The first sandbox makes what stays for the next.
      await sayIn(warren, 'base', 'true')
      const empty = await settledTraces(warren.dataFolder)
      const template = (seconds: number) =>
        Template().fromBaseImage().runCmd('echo first > first').runCmd(`sleep ${seconds}; echo done > done`)
      const crashes = momentsOf({ short: 2, long: 49 }, 2000)
      for (const waitMs of crashes) {
        const begun = await Template.buildInBackground(template(600), 'cut-short', warren.client)
        await delay(waitMs)
        await warren.crash()
        warren = await startWarren(isolation, { keep: true, settings })
        const status = await Template.getBuildStatus(begun, warren.client)
        assert.equal(status.status, 'error')
        assert.match(status.reason?.message ?? '', /^Warren was restarted, .* while this build was under way/)
      }
      const left = await settledTraces(warren.dataFolder)
      // What a finished step left for the next build may stay.
      assert.ok(left.files - empty.files <= 1, JSON.stringify({ empty, left }))
      assert.deepEqual({ ...left, files: 0 }, { ...empty, files: 0 })
      await Template.build(template(0), 'cut-short', warren.client)
      assert.equal(await sayIn(warren, 'cut-short', 'cat first done'), 'first\ndone\n')
      const builds = await buildsOf(warren, 'cut-short')
      assert.deepEqual(
        builds.map(({ status }) => status),
        ['ready', ...Array(crashes.length).fill('error')],
      )
      assert.equal((await warren.api('/templates/cut-short', { method: 'DELETE' })).status, 204)
    })

    it('a build that a shutdown finds under way says so', async () => {
      warren = await startWarren(isolation, { settings })
      const sleeping = Template().fromBaseImage().runCmd('sleep 600')
      const begun = await Template.buildInBackground(sleeping, 'shut-down', warren.client)
      await delay(1000)
      assert.equal(await warren.stop(), 0)
      warren = await startWarren(isolation, { keep: true, settings })
      const { status, reason } = await Template.getBuildStatus(begun, warren.client)
      assert.equal(status, 'error')
      assert.match(reason?.message ?? '', /Warren was (stopped|restarted) while this build was under way/)
    })

    it('a template starts under the other runtime, service and all, and so does one made there', async () => {
      const other = isolation === 'container' ? 'gvisor' : 'container'
      const serving = (name: string) =>
        Template()
          .fromBaseImage()
          .runCmd(`echo ${name} > made`)
          .setEnvs({ MADE: name })
          .setStartCmd('python3 -m http.server 8000', waitForPort(8000))
      const ask = 'cat made; echo $MADE; curl -s localhost:8000/made'
      const plain = Template().fromBaseImage().runCmd('echo plain > made')
      warren = await startWarren(isolation, { settings })
      await Template.build(serving('here'), 'made-here', warren.client)
      await Template.build(plain, 'plain-here', warren.client)
      await warren.stop()
      warren = await startWarren(isolation, {
        keep: true,
        settings: { ...settings, WARREN_ISOLATION: other },
      })
      assert.equal(await sayIn(warren, 'made-here', ask), 'here\nhere\nhere\n')
      assert.equal(await sayIn(warren, 'plain-here', 'cat made'), 'plain\n')
      await Template.build(serving('there'), 'made-there', warren.client)
      const child = Template().fromTemplate('made-here').runCmd('cat made > child')
      await Template.build(child, 'child-there', warren.client)
      await warren.stop()
      warren = await startWarren(isolation, { keep: true, settings })
      assert.equal(await sayIn(warren, 'made-there', ask), 'there\nthere\nthere\n')
      assert.equal(await sayIn(warren, 'child-there', 'cat child'), 'here\n')
      assert.equal(await sayIn(warren, 'made-here', ask), 'here\nhere\nhere\n')
    })

    it('the command line builds a Dockerfile, lists templates and deletes them', async () => {
      warren = await startWarren(isolation, { settings })
      using context = await buildContext({
        'e2b.Dockerfile': 'FROM e2bdev/base\nWORKDIR /srv\nCOPY app app\nRUN cat app/main.txt > copied\n',
        'app/main.txt': 'main\n',
      })
      const told = await e2b(
        warren,
        ...[
          'template',
          'create',
          'by-cli',
          '--path',
          context.folder,
          '--cpu-count',
          '1',
          '--memory-mb',
          '512',
        ],
        ...['--cmd', 'python3 -m http.server 8000', '--ready-cmd', 'curl -sf localhost:8000'],
      )
      assert.match(told, /\[builder \d+\/\d+\] RUN cat app\/main\.txt > copied/)
      const sandbox = await Sandbox.create('by-cli', { ...warren.client, timeoutMs: 60_000 })
      const answer = await sandbox.commands.run('cat copied; curl -s localhost:8000/copied')
      assert.equal(answer.stdout, 'main\nmain\n')
      await sandbox.kill()
      const [listed, ...rest] = JSON.parse(await e2b(warren, 'template', 'list', '--format', 'json'))
      assert.deepEqual([listed.aliases, listed.cpuCount, listed.memoryMB, rest], [['by-cli'], 1, 512, []])
      assert.match(await e2b(warren, 'template', 'list'), /by-cli/)
      await assert.rejects(
        e2b(warren, 'template', 'create', 'by-cli', '--path', context.folder, '--cpu-count', '3'),
        /CPU count/,
      )
      await e2b(warren, 'template', 'delete', '--yes', 'by-cli')
      assert.deepEqual(JSON.parse(await e2b(warren, 'template', 'list', '--format', 'json')), [])
    })
  })
}
