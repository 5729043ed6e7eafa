/** `e2b template` of the unmodified command line. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from 'e2b'
import { buildContext, sayIn } from '../support/building.ts'
import { e2b } from '../support/e2b-cli.ts'
import { eventually } from '../support/eventually.ts'
import { anyIsolation, joinWarren, type Warren } from '../support/warren.ts'

type Status = { status: string; reason?: { message: string } }

describe('templates of the command line', () => {
  let warren: Warren
  before(async () => {
    warren = await joinWarren(anyIsolation)
  })
  after(() => warren?.stop())

  it('are built from a Dockerfile, listed and deleted', async () => {
    using context = await buildContext({
      'e2b.Dockerfile': 'FROM e2bdev/base\nWORKDIR /srv\nCOPY app app\nRUN cat app/main.txt > copied\n',
      'app/main.txt': 'main\n',
    })
    const printed = await e2b(
      warren,
      ...['template', 'create', 'by-cli', '--path', context.folder, '--cpu-count', '1', '--memory-mb', '512'],
      ...['--cmd', 'python3 -m http.server 8000', '--ready-cmd', 'curl -sf localhost:8000'],
    )
    assert.match(printed, /\[builder \d+\/\d+\] RUN cat app\/main\.txt > copied/)
    const sandbox = await Sandbox.create('by-cli', { ...warren.client, timeoutMs: 3_600_000 })
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

  it('are built from the text of a Dockerfile by its first releases', async () => {
    const dockerfile = 'FROM e2bdev/base\nENV FROM=first\nRUN echo made > /made\n'
    const asked = await warren.api('/templates', { body: { dockerfile, alias: 'by-first' } })
    assert.equal(asked.status, 202)
    const { templateID, buildID } = (await asked.json()) as { templateID: string; buildID: string }
    const path = `/templates/${templateID}/builds/${buildID}`
    assert.equal((await warren.api(path, { method: 'POST' })).status, 202)
    await eventually(async () => {
      const { status, reason } = (await (await warren.api(`${path}/status`)).json()) as Status
      assert.equal(status, 'ready', reason?.message)
    })
    assert.equal(await sayIn(warren, templateID, 'echo $FROM; cat /made'), 'first\nmade\n')
  })
})
