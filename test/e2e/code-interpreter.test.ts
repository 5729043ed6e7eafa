/** The published clients of the code interpreter against its built-in template. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from '@e2b/code-interpreter'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { usualPackages } from '../../src/app/templates/interpreter-packages.ts'
import { trustSettings } from '../support/host-authorities.ts'
import { pythonInterpreter } from '../support/prepare-tests.ts'
import { pythonWith } from '../support/python.ts'
import { type Isolation, noWarmPool, repoFolder, startWarren, type Warren } from '../support/warren.ts'

const pythonScript = `
from e2b_code_interpreter import Sandbox
sandbox = Sandbox.create(timeout=300)
assert sandbox.run_code('1 + 1').text == '2'
out = []
sandbox.run_code('print("hi")', on_stdout=lambda one: out.append(one.line))
assert out == ['hi\\n'], out
error = sandbox.run_code('1 / 0').error
chart = sandbox.run_code('import matplotlib.pyplot as plt; plt.plot([1, 2, 3]); plt.show()').results[0].chart
assert all(type(tick) is float for tick in chart.x_ticks) and 1.0 in chart.x_ticks, chart.x_ticks
assert error.name == 'ZeroDivisionError' and 'division by zero' in error.traceback
context = sandbox.create_code_context(cwd='/root')
assert sandbox.run_code('import os; os.getcwd()', context=context).text == '/root'
assert sandbox.run_code('import os; os.environ["A"]', envs={'A': 'x"'}).text == 'x"'
fork, = sandbox.fork(timeout=300)
assert not isinstance(fork, Exception), fork
assert fork.run_code('2 + 2').text == '4'
fork.kill()
sandbox.kill()
`

const chartsCell = `
import matplotlib.pyplot as plt
figure, axes = plt.subplots(2, 2)
figure.suptitle('All')
axes[0][0].plot([1, 2], [3, 4], label='first')
axes[0][0].set_xlabel('Time (s)')
axes[0][1].scatter([1, 2], [3, 4])
axes[1][0].pie([1, 3], labels=['a', 'b'])
axes[1][1].boxplot([[1, 2, 3, 4, 5]], patch_artist=True, labels=['one'])
plt.show()
`

/** The template is made under the first: to fetch and unpack its packages takes longer than all tests, and is the same. */
const order: readonly Isolation[] = ['container', 'gvisor']
const dataOf = order[0]!

for (const isolation of order) {
  describe(`the code interpreter (${isolation})`, () => {
    let warren: Warren
    let sandbox: Sandbox
    before(async () => {
      const settings = { ...trustSettings(), ...noWarmPool, WARREN_ISOLATION: isolation }
      warren = await startWarren(dataOf, { settings, keepData: isolation !== dataOf })
      if (isolation === dataOf) await addTemplate(warren)
      sandbox = await Sandbox.create({ ...warren.client, timeoutMs: 3_600_000, envs: { OF_SANDBOX: 'yes' } })
    })
    after(async () => {
      await sandbox?.kill()
      await warren?.stop()
    })

    it('runs every language, and keeps the state of each', async () => {
      await sandbox.runCode('x = 20')
      assert.equal((await sandbox.runCode('x + 1')).text, '21')
      await sandbox.runCode('const y: number = 3', { language: 'ts' })
      assert.equal((await sandbox.runCode('y * 2', { language: 'ts' })).text, '6')
      assert.equal((await sandbox.runCode('await Promise.resolve("js")', { language: 'js' })).text, 'js')
      const { logs } = await sandbox.runCode('echo $OF_SANDBOX', { language: 'bash' })
      assert.deepEqual(logs.stdout, ['yes\n'])
    })

    if (isolation === dataOf) {
      packageTests(() => sandbox)
      clientTests(
        () => warren,
        () => sandbox,
      )
    }

    it('has contexts to create, list, restart and remove', async () => {
      const context = await sandbox.createCodeContext({ cwd: '/root', language: 'python' })
      await sandbox.runCode('z = 1', { context })
      assert.equal((await sandbox.runCode('import os; os.getcwd()', { context })).text, '/root')
      assert.equal((await sandbox.listCodeContexts()).at(-1)?.id, context.id)
      await sandbox.restartCodeContext(context)
      assert.equal((await sandbox.runCode('z', { context })).error?.name, 'NameError')
      await sandbox.removeCodeContext(context)
      await assert.rejects(sandbox.runCode('1', { context }), /Context ID not found/)
    })

    it('interrupts a cell whose client left, and keeps its state', async () => {
      await sandbox.runCode('kept = 7')
      await assert.rejects(sandbox.runCode('import time\ntime.sleep(100)', { timeoutMs: 500 }))
      assert.equal((await sandbox.runCode('kept')).text, '7')
    })

    it('runs nothing for a client that knows the id of the sandbox but not its token', async () => {
      const headers = { 'e2b-sandbox-id': sandbox.sandboxId, 'e2b-sandbox-port': '49999' }
      for (const token of [undefined, 'wrong']) {
        const answer = await fetch(`${warren.url}/execute`, {
          method: 'POST',
          headers: { ...headers, ...(token && { 'x-access-token': token }) },
          body: JSON.stringify({ code: 'open("/tmp/stranger", "w")' }),
        })
        assert.equal(answer.status, 401)
      }
      assert.equal(await sandbox.files.exists('/tmp/stranger'), false)
    })

    it('restarts when its server is killed', async () => {
      const other = await Sandbox.create({ ...warren.client, timeoutMs: 3_600_000 })
      await other.commands.run('pkill -9 -f server.cjs', { user: 'root' })
      const healthy =
        'for _ in $(seq 300); do curl -sf localhost:49999/health && exit 0; sleep 0.1; done; exit 1'
      await other.commands.run(healthy)
      assert.equal((await other.runCode('1 + 1')).text, '2')
      await other.kill()
    })

    it('continues in forks, with the state of its contexts if snapshots have memory, and otherwise from the start', async () => {
      const context = await sandbox.createCodeContext({ cwd: '/tmp' })
      await sandbox.runCode('own = 1', { context })
      await sandbox.runCode('let own = 10', { language: 'js' })
      const results = await sandbox.fork({ count: 2, timeoutMs: 3_600_000 })
      const forks = results.map((one) => (one instanceof Error ? assert.fail(one) : one))
      for (const fork of forks) {
        if (isolation === 'gvisor') {
          assert.equal((await fork.runCode('own += 1; own', { context })).text, '2')
          assert.equal((await fork.runCode('own += 1; own', { language: 'js' })).text, '11')
          const ids = async (one: Sandbox) => (await one.listCodeContexts()).map(({ id }) => id)
          assert.deepEqual(await ids(fork), await ids(sandbox))
        }
        const whose = await fork.runCode('import os; os.environ["OF_SANDBOX"]')
        assert.equal(whose.text, 'yes')
        await fork.kill()
      }
      assert.equal((await sandbox.runCode('own', { context })).text, '1')
      await sandbox.removeCodeContext(context)
    })

    it('keeps its state over pause and resume if snapshots have memory, and answers afterwards in any case', async () => {
      await sandbox.runCode('over = 5')
      await sandbox.pause()
      const back = await Sandbox.connect(sandbox.sandboxId, warren.client)
      const { text, error } = await back.runCode('over')
      if (isolation === 'gvisor') assert.equal(text, '5')
      else assert.ok(text === '5' || error?.name === 'NameError')
    })
  })
}

/** What packages make of data, which is the same under any isolation. */
function packageTests(sandbox: () => Sandbox): void {
  it('has compiled packages, so that a first import is not slow', async () => {
    const compiled =
      'import importlib.util, os; os.path.exists(importlib.util.find_spec("scipy.optimize").cached)'
    assert.equal((await sandbox().runCode(compiled)).text, 'True')
  })

  it('has the packages of the list, in its versions', async () => {
    const names = JSON.stringify(Object.keys(usualPackages))
    const { text } = await sandbox().runCode(
      `import importlib.metadata, json; json.dumps({name: importlib.metadata.version(name) for name in ${names}})`,
    )
    assert.deepEqual(JSON.parse(text!), usualPackages)
  })

  it('returns the data of tables and charts', async () => {
    const table = await sandbox().runCode('import pandas as pd\npd.DataFrame({"a": [1, 2]})')
    assert.deepEqual(table.results[0]?.data, { a: [1, 2] })
    assert.match(table.results[0]?.html ?? '', /<table/)
    const drawn = await sandbox().runCode(
      'import matplotlib.pyplot as plt\nplt.bar(["a", "b"], [3, 4])\nplt.ylabel("Weight (kg)")\nplt.show()',
    )
    const { chart, png, isMainResult } = drawn.results[0]!
    assert.equal(isMainResult, false)
    assert.ok(png)
    assert.equal(chart?.type, 'bar')
    assert.deepEqual(
      chart?.elements.map((one) => ({ ...one })),
      [
        { label: 'a', group: 'Group 0', value: 3 },
        { label: 'b', group: 'Group 0', value: 4 },
      ],
    )
  })

  it('returns the data of every kind of chart', async () => {
    const drawn = await sandbox().runCode(chartsCell)
    const charts = drawn.results.map(({ chart }) => JSON.parse(JSON.stringify(chart ?? null)))
    assert.equal(charts.length, 1, drawn.error?.traceback)
    const { type, title, elements } = charts[0]
    assert.deepEqual([type, title], ['superchart', 'All'])
    const [line, scatter, pie, box] = elements
    assert.deepEqual(
      elements.map((one: { type: string }) => one.type),
      ['line', 'scatter', 'pie', 'box_and_whisker'],
    )
    assert.deepEqual([line.x_label, line.x_unit, line.x_scale], ['Time (s)', 's', 'linear'])
    const points = [
      ...[
        [1, 3],
        [2, 4],
      ],
    ]
    assert.deepEqual(line.elements, [{ label: 'first', points }])
    assert.deepEqual(scatter.elements[0].points, points)
    assert.deepEqual(
      pie.elements.map(({ label, angle }: { label: string; angle: number }) => [label, angle]),
      [
        ['a', 90],
        ['b', 270],
      ],
    )
    const { label, min, median, max, outliers } = box.elements[0]
    assert.deepEqual([label, min, median, max, outliers], ['one', 1, 3, 5, []])
  })
}

/** Other clients send what the JavaScript client sends: what depends on the isolation is proved with that one. */
function clientTests(warren: () => Warren, sandbox: () => Sandbox): void {
  it('serves the MCP tool run_code', async () => {
    const client = new Client({ name: 'test', version: '1' })
    const requestInit = { headers: { Authorization: `Bearer ${warren().client.apiKey}` } }
    const url = new URL('/mcp', warren().url)
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }) as Transport)
    const run = (code: string, more: object = {}) => {
      const given = { sandboxID: sandbox().sandboxId, code, ...more }
      return client.callTool({ name: 'run_code', arguments: given })
    }
    await run('seen = 20')
    assert.deepEqual((await run('print("said"); seen + 1')).content, [{ type: 'text', text: 'said\n21\n' }])
    const text = (answer: Awaited<ReturnType<typeof run>>) => JSON.stringify(answer.content)
    assert.match(text(await run('echo $OF_SANDBOX', { language: 'bash' })), /yes/)
    const failed = await run('1 / 0')
    assert.deepEqual([/ZeroDivisionError/.test(text(failed)), failed.isError], [true, true])
    const drawn = await run('import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()')
    assert.match(text(drawn), /"type":"image".*"mimeType":"image\/png"/)
    const late = await run('import time\ntime.sleep(100)', { timeoutSeconds: 1 })
    assert.match(text(late), /was interrupted because it did not end within 1 seconds/)
    const missing = await run('1', { language: 'r' })
    assert.match(text(missing), /There is no kernel for 'r' in this template.*--full/)
    await client.close()
  })

  it('serves the Python client', () => {
    const run = spawnSync(pythonWith(pythonInterpreter), ['-c', pythonScript], {
      env: { ...process.env, ...warren().environment },
      encoding: 'utf8',
    })
    assert.equal(run.status, 0, run.stderr)
  })
}

async function addTemplate(warren: Warren): Promise<void> {
  await assert.rejects(Sandbox.create(warren.client), /is being built.*Try again/)
  const added = spawnSync(`${repoFolder}/bin/warren`, ['template', 'add', 'code-interpreter'], {
    env: { ...process.env, WARREN_DATA_DIR: warren.dataFolder },
    encoding: 'utf8',
  })
  assert.equal(added.status, 0, added.stdout + added.stderr)
}
