/** The kernels of languages that not every machine has: what is not installed here is tested by test/long alone. */
import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { type Line, openInterpreter } from '../../test/support/interpreter.ts'
import { kernelKind } from './languages.ts'

type Opened = Awaited<ReturnType<typeof openInterpreter>>

/** The same in each language. */
type Sample = {
  /** Prints `é` and a line end, and to standard error `oh`. */
  print: string
  remember: string
  /** Its value is that of `remember`, 7. */
  remembered: string
  /** How 7 is shown. */
  seven: string
  /** Fails in a function that another one calls. */
  fail: string
  failure: { name: string; value: string; traceback: RegExp }
  invalid: string
  sleep: string
  loop: string
  /** Prints the variables FROM_SANDBOX and OWN with `|` between them; nothing for one that is not there. */
  variables: string
  /** Ends its process. */
  end: string
  /** Prints the folder. */
  folder: string
}

const samples: Record<string, Sample> = {
  r: {
    print: 'cat("é\\n"); message("oh")',
    remember: 'kept <- 7',
    remembered: 'kept',
    seven: '[1] 7',
    fail: 'f <- function(n) g(n)\ng <- function(n) stop("bad ", n)\nf(3)',
    failure: {
      name: 'ERROR',
      value: 'Error in g(n): bad 3',
      traceback: /^Error in g\(n\): bad 3\nTraceback:\n1\. f\(3\)\n2\. g\(n\)\n3\. stop/,
    },
    invalid: 'x <- (',
    sleep: 'Sys.sleep(60)',
    loop: 'repeat {}',
    variables: 'cat(Sys.getenv("FROM_SANDBOX"), "|", Sys.getenv("OWN"), sep = "")',
    end: 'tools::pskill(Sys.getpid(), 9)',
    folder: 'cat(getwd())',
  },
  java: {
    print: 'System.out.println("é"); System.err.println("oh");',
    remember: 'int kept = 7;',
    remembered: 'kept',
    seven: '7',
    fail: 'int f(int n) { return g(n); }\nint g(int n) { throw new IllegalStateException("bad " + n); }\nf(3)',
    failure: {
      name: 'java.lang.IllegalStateException',
      value: 'bad 3',
      traceback: /^java\.lang\.IllegalStateException: bad 3\n\tat g\(#\d+:1\)\n\tat f\(#\d+:1\)/,
    },
    invalid: 'int x = ;',
    sleep: 'Thread.sleep(60000);',
    loop: 'while (true) {}',
    variables:
      'System.out.print(System.getenv("FROM_SANDBOX") + "|" + Objects.toString(System.getenv("OWN"), ""));',
    end: 'Runtime.getRuntime().halt(1);',
    folder: 'System.out.print(new File("").getAbsolutePath());',
  },
}

for (const [language, sample] of Object.entries(samples)) {
  if (!kernelKind(language)) continue
  suite(`the kernel of ${language}`, { timeout: 900_000 }, () => {
    let opened: Opened
    before(async () => {
      opened = await openInterpreter(async () => ({ FROM_SANDBOX: 'yes' }), language)
    })
    after(() => opened[Symbol.asyncDispose]())
    const run = (code: string, options: object = { language }) => opened.execute(code, options)
    const found = (lines: Line[], type: string) => lines.filter((line) => line.type === type)

    test('returns what a cell prints, and keeps its declarations', async () => {
      const lines = await run(`${sample.print}\n${sample.remember}`)
      assert.deepEqual(lines[0], { type: 'number_of_executions', execution_count: 1 })
      assert.deepEqual([opened.printed(lines), opened.printed(lines, 'stderr')], ['é\n', 'oh\n'])
      assert.deepEqual(found(lines, 'result'), [])
      const [value] = found(await run(sample.remembered), 'result')
      assert.deepEqual(value, { type: 'result', text: sample.seven, is_main_result: true })
    })

    test('returns errors with their stack, and syntax errors', async () => {
      const [error] = found(await run(sample.fail), 'error')
      assert.deepEqual([error?.name, error?.value], [sample.failure.name, sample.failure.value])
      assert.match(String(error?.traceback), sample.failure.traceback)
      assert.equal(found(await run(sample.invalid), 'error').length, 1)
      assert.equal(found(await run(sample.remembered), 'result')[0]?.text, sample.seven)
    })

    test('sets variables for one cell, with any content', async () => {
      const hard = 'a\'b"c\\d\n$e`é'
      const own = { language, env_vars: { OWN: hard } }
      assert.equal(opened.printed(await run(sample.variables, own)), `yes|${hard}`)
      assert.equal(opened.printed(await run(sample.variables)), 'yes|')
    })

    test('interrupts a cell whose client has left, and keeps the state of the context', async () => {
      for (const code of [sample.sleep, sample.loop]) {
        await assert.rejects(run(code, { language, signal: AbortSignal.timeout(1000) }), /abort/i)
        assert.equal(found(await run(sample.remembered), 'result')[0]?.text, sample.seven, code)
      }
    })

    test('has contexts in folders of their own, and restarts there', async () => {
      const make = (cwd: string) => opened.call('POST', '/contexts', { language, cwd })
      const { id: context_id } = (await (await make('/tmp')).json()) as { id: string }
      assert.equal(opened.printed(await run(sample.folder, { context_id })), '/tmp')
      assert.equal(found(await run(sample.end, { context_id }), 'error')[0]?.name, 'ContextRestarting')
      assert.equal(opened.printed(await run(sample.folder, { context_id })), '/tmp')
      const refused = await make('/nowhere')
      assert.equal(refused.status, 500)
      assert.match(await refused.text(), /The folder '\/nowhere' cannot be entered/)
    })

    test('passes large output unchanged', async () => {
      const large = { r: 'strrep("z", 1e6)', java: '"z".repeat(1000000)' }[language]!
      const [value] = found(await run(large), 'result')
      assert.ok(value!.text!.length >= 1_000_000)
    })

    if (language === 'r') {
      test('returns tables with their data, and pictures of charts', async () => {
        const resultsOf = async (code: string) => found(await run(code), 'result')
        const [table] = await resultsOf('data.frame(a = 1:2, b = c("x", NA))')
        assert.deepEqual(table?.data, { a: [1, 2], b: ['x', null] })
        assert.match(String(table?.html), /<th>a<\/th>/)
        const drawn = await resultsOf('plot(1:3)\nlines(3:1)\nhist(1:9)\n7')
        const kinds = drawn.map(
          ({ text, png }) => text ?? Buffer.from(String(png), 'base64').toString('latin1', 1, 4),
        )
        assert.deepEqual(kinds, ['[1] 7', 'PNG', 'PNG'])
        const [before, ...more] = await resultsOf('1\nq()\n2')
        assert.deepEqual([before?.text, more], ['[1] 1', []])
      })
    }

    if (language === 'java') {
      test('returns values and pictures that a cell displays', async () => {
        const code = 'display(new java.awt.image.BufferedImage(9, 9, 1)); display(List.of(1));'
        const [picture, list] = found(await run(code), 'result')
        assert.deepEqual([typeof picture?.png, picture?.is_main_result, list?.text], ['string', false, '[1]'])
      })
    }
  })
}
