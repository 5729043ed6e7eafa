/** How builds go, fail, serve and are cached, seen by the unmodified JavaScript clients; services on both runtimes. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import * as current from 'e2b'
import { buildsOf, listening, sayIn } from '../support/building.ts'
import { eventually } from '../support/eventually.ts'
import { javaScriptReleases } from '../support/releases.ts'
import { isolations, joinWarren, type Warren } from '../support/warren.ts'

// The two releases share the surface used here; their type declarations are not assignable to each other.
const { Template } = current

type Reason = { message: string; step: string; logEntries: { step: string }[] }

for (const isolation of isolations) {
  describe(`template builds, ${isolation}`, () => {
    let warren: Warren
    before(async () => {
      warren = await joinWarren(isolation)
    })
    after(() => warren?.stop())

    it('starts the service of a template before its sandboxes are used', async () => {
      const serve = 'python3 -m http.server 8000'
      const bind = "python3 -c \"import time; time.sleep(1); open('/tmp/up', 'w'); time.sleep(1000)\""
      const ready = {
        port: [serve, current.waitForPort(8000)],
        url: [serve, current.waitForURL('http://localhost:8000/', 200)],
        file: [bind, current.waitForFile('/tmp/up')],
        process: ['sleep 4321', current.waitForProcess('sleep')],
        timeout: ['sleep 4321', current.waitForTimeout(1000)],
      } as const
      // How a client waits is a command like any other: one that answers and one that is only there will do elsewhere.
      const kinds = Object.entries(ready).filter(
        ([kind]) => isolation === 'container' || ['port', 'process'].includes(kind),
      )
      await Promise.all(
        kinds.map(async ([kind, [command, wait]]) => {
          const template = Template().fromBaseImage().setEnvs({ KIND: kind }).setStartCmd(command, wait)
          await Template.build(template, `ready-${kind}`, warren.client)
        }),
      )
      const { lines, options } = listening(warren)
      await Template.build(
        Template().fromBaseImage().setReadyCmd('test -d /home/user'),
        'ready-alone',
        options,
      )
      assert.ok(lines.includes('Waiting for template to be ready: test -d /home/user'), lines.join('\n'))
      const check = 'curl -s -o /dev/null -w "%{http_code}" http://localhost:8000/'
      assert.equal(await sayIn(warren, 'ready-port', `${check}; echo " $KIND"`), '200 port\n')
      assert.equal(await sayIn(warren, 'ready-process', 'pgrep -u user -x sleep | wc -l'), '1\n')
      if (isolation !== 'container') return
      assert.equal(await sayIn(warren, 'ready-url', check), '200')
      assert.equal(await sayIn(warren, 'ready-file', 'ls /tmp/up'), '/tmp/up\n')
    })

    it('rejects a service that ends before it is ready', async () => {
      const early = Template().fromBaseImage().setStartCmd('echo sorry; exit 3', current.waitForPort(8000))
      const { lines, options } = listening(warren)
      await assert.rejects(
        Template.build(early, 'ends-early', options),
        /the start command ended before it was ready: exit status 3/,
      )
      assert.ok(
        lines.some((line) => line.endsWith('[stdout]: sorry')),
        lines.join('\n'),
      )
      const [build] = await buildsOf(warren, 'ends-early')
      assert.equal(build?.status, 'error')
    })

    // The reports, names and cache of a build do not depend on the isolation.
    if (isolation !== 'container') return

    for (const [version, client] of javaScriptReleases(isolation, 'same')) {
      const name = (text: string) => `${text}-${version.replace('.', '-')}`

      it(`e2b ${version} builds in the background, with tags, and finds its builds`, async () => {
        const alias = name('background')
        assert.equal(await client.Template.exists(alias, warren.client), false)
        const template = client.Template().fromBaseImage().runCmd(`echo ${version} > which`)
        const begun = await client.Template.buildInBackground(template, `${alias}:v1`, {
          ...warren.client,
          tags: ['stable'],
        })
        assert.deepEqual([...begun.tags].sort(), ['stable', 'v1'])
        const first = await client.Template.getBuildStatus(begun, warren.client)
        assert.equal(first.status, 'building')
        await eventually(async () => {
          assert.equal((await client.Template.getBuildStatus(begun, warren.client)).status, 'ready')
        })
        assert.equal(await client.Template.exists(alias, warren.client), true)
        assert.equal(await client.Template.exists(`${alias}:v1`, warren.client), true)
        assert.equal(await client.Template.exists(`${alias}:v2`, warren.client), false)
        await assert.rejects(client.Sandbox.create(alias, warren.client), /no finished build|not found/)
        const assigned = await client.Template.assignTags(`${alias}:v1`, ['v2', 'default'], warren.client)
        assert.equal(assigned.buildId, begun.buildId)
        await client.Template.removeTags(alias, 'stable', warren.client)
        const tags = await client.Template.getTags(begun.templateId, warren.client)
        assert.deepEqual(
          tags.map(({ tag, buildId }) => [tag, buildId]),
          [
            ...[
              ['default', begun.buildId],
              ['v1', begun.buildId],
              ['v2', begun.buildId],
            ],
          ],
        )
        for (const reference of [alias, `${alias}:v2`, `${alias}:${begun.buildId}`]) {
          assert.equal(await sayIn(warren, reference, 'cat which'), `${version}\n`)
        }
        await assert.rejects(client.Template.assignTags('nothing-here', 'x', warren.client))
        await assert.rejects(client.Template.removeTags(alias, 'default', warren.client))
      })

      it(`e2b ${version} gets the command that failed, and the user that cannot run one`, async () => {
        const failing = client.Template().fromBaseImage().runCmd('true').runCmd('echo why >&2; exit 7')
        await assert.rejects(
          client.Template.build(failing, name('failing'), warren.client),
          (error: Error) => {
            assert.ok(error instanceof client.BuildError)
            const said = "failed to run command 'echo why >&2; exit 7': exit status 7"
            assert.equal(error.message, `${said}. This was step 2 of 2; its last output: 'why'.`)
            assert.match(error.stack ?? '', /\.test\.ts/)
            return true
          },
        )
        const nobody = client.Template().fromBaseImage().runCmd('whoami', { user: 'root123' })
        await assert.rejects(client.Template.build(nobody, name('failing'), warren.client), {
          message:
            "failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'. This was step 1 of 1.",
        })
        const [build] = await buildsOf(warren, name('failing'))
        const path = `/templates/${build!.templateID}/builds/${build!.buildID}/status`
        const { reason } = (await (await warren.api(path)).json()) as { reason: Reason }
        assert.equal(reason.step, '1')
        assert.ok(reason.logEntries.length > 0 && reason.logEntries.every(({ step }) => step === '1'))
      })
    }

    it('uses its cache, unless the client forces a build', async () => {
      const stamp = 'date +%s%N > stamp'
      const template = () => Template().fromBaseImage().runCmd('echo same > same').runCmd(stamp)
      const stampOf = (reference: string) => sayIn(warren, reference, 'cat stamp')
      await Template.build(template(), 'cached', warren.client)
      const first = await stampOf('cached')
      const again = listening(warren)
      await Template.build(template(), 'cached', again.options)
      const steps = again.lines.filter((line) => line.includes('[builder '))
      assert.deepEqual(
        steps.map((line) => line.startsWith('CACHED ')),
        [true, true],
      )
      assert.equal(await stampOf('cached'), first)
      const step = listening(warren)
      await Template.build(
        Template().fromBaseImage().runCmd('echo same > same').skipCache().runCmd(stamp),
        'cached',
        step.options,
      )
      assert.ok(
        step.lines.some((line) => line.startsWith('CACHED [builder 1/2]')),
        step.lines.join('\n'),
      )
      const second = await stampOf('cached')
      assert.notEqual(second, first)
      const whole = listening(warren)
      await Template.build(template(), 'cached', { ...whole.options, skipCache: true })
      assert.ok(!whole.lines.some((line) => line.startsWith('CACHED')), whole.lines.join('\n'))
      const third = await stampOf('cached')
      assert.ok(third !== second && third !== first)
      const [newest, , , oldest] = await buildsOf(warren, 'cached')
      assert.equal(await stampOf(`cached:${oldest!.buildID}`), first)
      assert.equal(await stampOf(`cached:${newest!.buildID}`), third)
    })
  })
}
