/** The whole template of the code interpreter: every package that it names, and R and Java by both clients. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from '@e2b/code-interpreter'
import { trustSettings } from '../support/host-authorities.ts'
import { pythonInterpreter } from '../support/prepare-tests.ts'
import { pythonWith } from '../support/python.ts'
import { type Isolation, noWarmPool, repoFolder, startWarren, type Warren } from '../support/warren.ts'

const modules = [
  ...['numpy', 'pandas', 'matplotlib', 'PIL', 'scipy', 'sklearn', 'requests', 'bs4', 'openpyxl', 'sympy'],
  ...['seaborn', 'skimage', 'plotly', 'kaleido', 'bokeh', 'xarray', 'numba', 'joblib', 'cv2', 'imageio'],
  ...['librosa', 'soundfile', 'nltk', 'spacy', 'gensim', 'textblob', 'aiohttp', 'urllib3', 'tornado'],
  ...['xlrd', 'docx', 'pytz', 'pytest', 'orjson'],
]

const pythonScript = `
from e2b_code_interpreter import Sandbox
sandbox = Sandbox.create(timeout=300)
for language, keep, ask, shown in (('r', 'x <- 20', 'x + 1', '[1] 21'), ('java', 'int x = 20;', 'x + 1', '21')):
    context = sandbox.create_code_context(cwd='/tmp', language=language)
    sandbox.run_code(keep, context=context)
    assert sandbox.run_code(ask, context=context).text == shown
    assert sandbox.run_code('nothing', context=context).error.traceback
printed = sandbox.run_code('print("hi")', language='r').logs.stdout
assert printed == ['[1] "hi"\\n'], printed
printed = sandbox.run_code('System.out.println("hi");', language='java').logs.stdout
assert printed == ['hi\\n'], printed
sandbox.kill()
`

/** The template is made under the first: to fetch its packages takes longer than all else, and is the same. */
const order: readonly Isolation[] = ['container', 'gvisor']
const dataOf = order[0]!

for (const isolation of order) {
  describe(`the whole code interpreter (${isolation})`, { timeout: 2_400_000 }, () => {
    let warren: Warren
    let sandbox: Sandbox
    before(async () => {
      const settings = { ...trustSettings(), ...noWarmPool, WARREN_ISOLATION: isolation }
      warren = await startWarren(dataOf, { settings, keepData: isolation !== dataOf })
      if (isolation === dataOf) addWholeTemplate(warren)
      sandbox = await Sandbox.create({ ...warren.client, timeoutMs: 1_800_000, envs: { OF_SANDBOX: 'yes' } })
    })
    after(async () => {
      await sandbox?.kill()
      await warren?.stop()
    })

    it('imports every package in its list', async () => {
      const imports = modules.map((name) => `import ${name}`).join('\n')
      const { error, logs } = await sandbox.runCode(imports, { timeoutMs: 600_000 })
      assert.equal(error, undefined, `${error?.value}\n${error?.traceback}\n${logs.stderr.join('')}`)
    })

    it('draws figures with Asian characters', async () => {
      const drawn = await sandbox.runCode(
        'import matplotlib.pyplot as plt\nplt.rcParams["font.family"] = "Noto Sans CJK JP"\nplt.title("兎の巣穴")\nplt.plot([1, 2])\nplt.show()',
      )
      assert.ok(drawn.results[0]?.png)
      assert.ok(!/Glyph .* missing|not found/.test(drawn.logs.stderr.join('')), drawn.logs.stderr.join(''))
    })

    it('runs R and Java, and keeps the state of each', async () => {
      const r = await sandbox.runCode('x <- c(1, 2)\ncat(Sys.getenv("OF_SANDBOX"))\nsum(x)', {
        language: 'r',
      })
      assert.deepEqual([r.text, r.logs.stdout.join('')], ['[1] 3', 'yes'])
      assert.equal((await sandbox.runCode('length(x)', { language: 'r' })).text, '[1] 2')
      const drawn = await sandbox.runCode('plot(x)\ndata.frame(a = x)', { language: 'r' })
      assert.deepEqual(drawn.results.find(({ data }) => data)?.data, { a: [1, 2] })
      assert.ok(drawn.results.some(({ png }) => png))
      const java = await sandbox.runCode('int x = 4; System.out.print(System.getenv("OF_SANDBOX")); x * 2', {
        language: 'java',
      })
      assert.deepEqual([java.text, java.logs.stdout.join('')], ['8', 'yes'])
      assert.equal((await sandbox.runCode('x + 1', { language: 'java' })).text, '5')
    })

    it('interrupts R and Java when their client left', async () => {
      for (const [language, endless] of [
        ['r', 'repeat {}'],
        ['java', 'while (true) {}'],
      ] as const) {
        await assert.rejects(sandbox.runCode(endless, { language, timeoutMs: 2000 }))
        assert.equal((await sandbox.runCode('x', { language })).error, undefined, language)
      }
    })

    it('continues in forks', async () => {
      const [fork] = await sandbox.fork({ timeoutMs: 300_000 })
      if (!fork || fork instanceof Error) assert.fail(fork)
      for (const [language, again, ask, shown] of [
        ['r', 'x <- c(1, 2)', 'sum(x)', '[1] 3'],
        ['java', 'int x = 4;', 'x', '4'],
      ] as const) {
        // The processes of a container start anew in a fork.
        if (isolation === 'container') await fork.runCode(again, { language })
        assert.equal((await fork.runCode(ask, { language })).text, shown)
      }
      await fork.kill()
    })

    it('serves the Python client', () => {
      const run = spawnSync(pythonWith(pythonInterpreter), ['-c', pythonScript], {
        env: { ...process.env, ...warren.environment },
        encoding: 'utf8',
      })
      assert.equal(run.status, 0, run.stderr)
    })
  })
}

function addWholeTemplate(warren: Warren): void {
  const args = ['template', 'add', 'code-interpreter', '--full']
  const added = spawnSync(`${repoFolder}/bin/warren`, args, {
    env: { ...process.env, WARREN_DATA_DIR: warren.dataFolder },
    encoding: 'utf8',
    maxBuffer: 256 * 1024 * 1024,
  })
  assert.equal(added.status, 0, added.stdout + added.stderr)
}
