/** Builds and sandboxes in a network that inspects TLS, without and with the authorities of the machine. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { buildContext } from '../support/building.ts'
import { InspectedWorld, inspectedHost } from '../support/inspected-world.ts'
import { anyIsolation, dataFolderOf, noWarmPool, startWarren, type Warren } from '../support/warren.ts'
import { runCommandLine } from '../support/warren-command.ts'

const url = `https://${inspectedHost}/file`

describe('a network that inspects TLS', () => {
  let warren: Warren
  const world = new InspectedWorld()
  before(() => world.open(dataFolderOf(anyIsolation)))
  after(async () => {
    await warren?.stop()
    await world.close()
  })

  const run = (...args: string[]) => runCommandLine(warren.environment, args)
  const build = async (name: string, ...commands: string[]) => {
    const steps = commands.map((command) => `RUN ${command}\n`).join('')
    using context = await buildContext({ Dockerfile: `FROM e2bdev/base\n${steps}` })
    return await run('template', 'build', context.folder, '--name', name)
  }
  const fetches = `curl -sS --max-time 30 ${url} -o /home/user/file`

  it('fails a build with the step, its output and the setting that helps', async () => {
    warren = await startWarren(anyIsolation, { settings: { ...world.settings, ...noWarmPool } })
    const failed = await build('fetches', 'echo first', fetches)
    assert.equal(failed.code, 1)
    const last = failed.error.trimEnd().split('\n').at(-1)!
    assert.match(
      last,
      /line 3 of the Dockerfile: failed to run command 'curl .*This was step \d of \d; its last output: /,
    )
    assert.match(last, /'curl: \(60\) SSL certificate problem: .*WARREN_EXTRA_CA=host/)
    const pip = `pip install --retries 0 --index-url https://${inspectedHost}/simple thing`
    const withPip = await build('installs', pip)
    assert.match(withPip.error, /confirming the ssl certificate.*WARREN_EXTRA_CA=host/)
    const python = `import urllib.request as r; r.urlopen('${url}')`
    assert.match((await build('asks', `python3 -c "${python}"`)).error, /WARREN_EXTRA_CA=host/)
    assert.equal(world.carried, 0)
  })

  it('builds and runs with the authorities of the machine', async () => {
    await warren.stop()
    const trusting = {
      ...world.settings,
      ...noWarmPool,
      WARREN_EXTRA_CA: 'host',
      NODE_EXTRA_CA_CERTS: world.authorityFile,
    }
    warren = await startWarren(anyIsolation, { settings: trusting, keepData: true })
    const built = await build('fetches', 'echo first', fetches)
    assert.equal(built.code, 0, built.error)
    assert.equal((await run('run', '--template', 'fetches', '--', 'cat', 'file')).out, 'from the origin\n')
    const python = `import urllib.request as r; print(r.urlopen('${url}').read().decode())`
    for (const command of [
      ['curl', '-sS', url],
      ['python3', '-c', python],
    ]) {
      const ended = await run('run', '--', ...command)
      assert.match(ended.out, /^from the origin\n/, ended.error)
    }
    assert.equal(world.carried, 3)
  })
})
