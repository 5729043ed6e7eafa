import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, suite, test } from 'node:test'
import { openInterpreter } from '../../test/support/interpreter.ts'
import { delay } from '../lib/clock.ts'
import { readSandboxVariables } from './sandbox-variables.ts'

type Opened = Awaited<ReturnType<typeof openInterpreter>>

suite('the interpreter with kernels that every machine has', { timeout: 900_000 }, () => {
  let opened: Opened
  let variables: Record<string, string> = { FROM_SANDBOX: 'yes' }
  before(async () => {
    opened = await openInterpreter(async () => variables)
  })
  after(() => opened[Symbol.asyncDispose]())
  const resultOf = (lines: Awaited<ReturnType<Opened['execute']>>) =>
    lines.find(({ type }) => type === 'result')
  const errorOf = (lines: Awaited<ReturnType<Opened['execute']>>) =>
    lines.find(({ type }) => type === 'error')

  test('numbers executions, returns their output, and ends each with a last line', async () => {
    const first = await opened.execute('console.log("hi"); console.error("oh"); 1 + 1', { language: 'js' })
    assert.deepEqual(first[0], { type: 'number_of_executions', execution_count: 1 })
    assert.equal(opened.printed(first), 'hi\n')
    assert.equal(opened.printed(first, 'stderr'), 'oh\n')
    assert.deepEqual(resultOf(first), { type: 'result', text: '2', is_main_result: true })
    assert.deepEqual(first.at(-1), { type: 'end_of_execution' })
    const second = await opened.execute('2', { language: 'javascript' })
    assert.equal(second[0]!.execution_count, 2)
  })

  test('keeps declarations of JavaScript cells, awaits, imports, and erases types', async () => {
    const run = async (code: string, language = 'javascript') => {
      const lines = await opened.execute(code, { language })
      return errorOf(lines)?.value ?? resultOf(lines)?.text
    }
    await run('const a = 1; let b = 2; function f() { return a + b }; class K {}')
    assert.equal(await run('const a = 5; f()'), '7')
    assert.equal(await run('await Promise.resolve("x")'), 'x')
    assert.equal(await run('Promise.resolve([1, 2])'), '[ 1, 2 ]')
    assert.equal(
      await run(
        "import { basename } from 'node:path'\nimport * as os from 'os'\nbasename('/a/b') + typeof os.cpus",
      ),
      'bfunction',
    )
    assert.equal(await run("(await import('node:fs')).existsSync('/')"), 'true')
    assert.equal(await run("require('node:path').basename('/a/c')"), 'c')
    assert.equal(await run("const text = `\nimport x from 'y'`; text.length"), '18')
    assert.equal(await run('enum E { A = 3 }\nconst n: number = E.A; n', 'typescript'), '3')
    assert.equal(await run('interface I { a: string }\nconst i: I = { a: "q" }; i', 'ts'), "{ a: 'q' }")
    assert.equal(await run('[10n, NaN, -0]'), '[ 10n, NaN, -0 ]')
    assert.equal(await run('NaN'), 'NaN')
    assert.equal(await run('undefined'), undefined)
    assert.equal(await run('10n'), '10n')
  })

  test('returns errors of JavaScript with name, message and stack', async () => {
    const thrown = errorOf(await opened.execute('null.x', { language: 'js' }))!
    assert.equal(thrown.name, 'TypeError')
    assert.match(String(thrown.traceback), /^TypeError: Cannot read/)
    assert.equal(errorOf(await opened.execute('let = ;', { language: 'js' }))!.name, 'SyntaxError')
    assert.equal(errorOf(await opened.execute('throw 5', { language: 'js' }))!.value, '5')
  })

  test('runs bash in one shell, and returns the status of a failed command', async () => {
    const bash = { language: 'bash' }
    await opened.execute('x=5; cd /tmp; f() { echo "f $1"; }', bash)
    const lines = await opened.execute('echo $x; pwd; f é; echo oh > /dev/stderr; false', bash)
    assert.equal(opened.printed(lines), '5\n/tmp\nf é\n')
    assert.equal(opened.printed(lines, 'stderr'), 'oh\n')
    assert.deepEqual(errorOf(lines), { type: 'error', name: 'ExitError', value: '1', traceback: '' })
    assert.equal(opened.printed(await opened.execute('cat; echo end', bash)), 'end\n')
  })

  test('runs nothing without the token of a secure sandbox, even in memory of another sandbox', async () => {
    await using agent = await fakeAgent('right')
    await using guarded = await openInterpreter((token) => readSandboxVariables(token, agent.port))
    const run = (token?: string) => guarded.execute('echo ran', { language: 'bash', ...(token && { token }) })
    assert.equal(guarded.printed(await run('right')), 'ran\n')
    for (const token of [undefined, 'wrong']) await assert.rejects(run(token), /^Error: 401 Send the sandbox/)
    const body = JSON.stringify({ code: '1', language: 'bash' })
    const { statusText } = await fetch(`${guarded.url}/execute`, { method: 'POST', body })
    assert.match(statusText, /WARREN_OLDER_CLIENTS=yes/)
    agent.token = 'of a fork'
    await assert.rejects(run('right'), /^Error: 401/)
    assert.equal(guarded.printed(await run('of a fork')), 'ran\n')
  })

  test('sets variables of the sandbox and of one execution, with any content', async () => {
    const hard = 'a\'b"c\\d\n$e`f`'
    for (const [language, code] of [
      ['bash', 'printf %s "$FROM_SANDBOX|$OWN"'],
      ['javascript', 'process.stdout.write(process.env.FROM_SANDBOX + "|" + (process.env.OWN ?? ""))'],
    ] as const) {
      const show = async (options = {}) =>
        opened.printed(await opened.execute(code, { language, token: variables.FROM_SANDBOX!, ...options }))
      variables = { FROM_SANDBOX: 'yes' }
      assert.equal(await show({ env_vars: { OWN: hard } }), `yes|${hard}`)
      assert.equal(await show(), 'yes|')
      assert.equal(await show({ env_vars: { FROM_SANDBOX: 'once' } }), 'once|')
      assert.equal(await show(), 'yes|')
      // As in a fork: the same kernels, and another sandbox's token and variables.
      variables = { FROM_SANDBOX: 'fork' }
      assert.equal(await show(), 'fork|')
    }
  })

  test('interrupts a cell whose client has left, and keeps the state of the context', async () => {
    for (const [language, code, ask] of [
      ['bash', 'kept=7; sleep 60', 'echo $kept'],
      ['bash', 'kept=7; while :; do :; done', 'echo $kept'],
      ['javascript', 'globalThis.kept = 7; while (true) {}', 'console.log(kept)'],
      ['javascript', 'await new Promise(() => {})', 'console.log(kept)'],
      ['javascript', 'await null; for (;;) {}', 'console.log(kept)'],
    ] as const) {
      const running = opened.execute(code, { language, signal: AbortSignal.timeout(300) })
      await assert.rejects(running, /abort/i)
      assert.equal(opened.printed(await opened.execute(ask, { language })), '7\n', code)
    }
  })

  test('frees the slot of a client that left while its cell waited for it to read', async () => {
    for (const [language, code] of [
      ['bash', 'yes "a line that is printed again and again" 2>/dev/null'],
      ['javascript', 'process.stdout.write("x".repeat(20_000_000))'],
    ] as const) {
      const gone = new AbortController()
      const body = JSON.stringify({ code, language })
      await fetch(`${opened.url}/execute`, { method: 'POST', body, signal: gone.signal })
      // Nobody reads it, so after some megabytes the cell has to wait.
      await delay(1500)
      gone.abort()
      const next = language === 'bash' ? 'echo next' : 'console.log("next")'
      assert.match(opened.printed(await opened.execute(next, { language })).slice(-10), /next\n$/)
    }
  })

  test('restarts a kernel that ended half-way, and continues', async () => {
    const made = (await (
      await opened.call('POST', '/contexts', { language: 'bash', cwd: '/tmp' })
    ).json()) as {
      id: string
    }
    const context_id = made.id
    assert.equal(errorOf(await opened.execute('x=1; kill -9 $$', { context_id }))?.name, 'ContextRestarting')
    assert.equal(opened.printed(await opened.execute('pwd; echo "[$x]"', { context_id })), '/tmp\n[]\n')
    await opened.execute('x=2', { context_id })
    assert.equal((await opened.call('POST', `/contexts/${context_id}/restart`)).status, 200)
    assert.equal(opened.printed(await opened.execute('pwd; echo "[$x]"', { context_id })), '/tmp\n[]\n')
    assert.equal((await opened.call('DELETE', `/contexts/${context_id}`)).status, 200)
    const relative = await opened.call('POST', '/contexts', { language: 'bash', cwd: '../../tmp' })
    const { id, cwd } = (await relative.json()) as { id: string; cwd: string }
    assert.equal(cwd, '../../tmp')
    assert.equal(opened.printed(await opened.execute('pwd', { context_id: id })), '/tmp\n')
    await assert.rejects(opened.execute('1', { context_id }), /404 Context ID not found/)
  })

  test('rejects unsupported requests with the status and message of the protocol', async () => {
    await assert.rejects(opened.execute('1', { language: 'js', context_id: 'x' }), /400 Only one/)
    await assert.rejects(opened.execute('1', { language: 'cobol' }), /500 There is no kernel for 'cobol'/)
    assert.equal((await opened.call('POST', '/contexts', { language: 'bash', cwd: '/nowhere' })).status, 500)
    assert.equal((await opened.call('POST', '/contexts', { language: 5 })).status, 422)
    assert.equal((await opened.call('POST', '/execute', {})).status, 422)
    assert.equal((await opened.call('DELETE', '/contexts/none')).status, 404)
    assert.equal((await opened.call('GET', '/nothing')).status, 404)
  })

  test('passes large output unchanged, to a slow reader too', async () => {
    const lines = await opened.execute('process.stdout.write("é".repeat(5_000_000)); "z".repeat(3_000_000)', {
      language: 'js',
    })
    assert.equal(opened.printed(lines).length, 5_000_000)
    assert.equal(resultOf(lines)!.text!.length, 3_000_000)
  })

  test('runs contexts beside each other, and cells of one context one after another', async () => {
    const bash = { language: 'bash' }
    const slow = opened.execute(
      'for i in 1 2 3 4 5; do sleep 0.1; echo $i; done > /tmp/.warren-order; cat /tmp/.warren-order',
      bash,
    )
    const next = opened.execute('cat /tmp/.warren-order; rm /tmp/.warren-order', bash)
    assert.ok(resultOf(await opened.execute('1', { language: 'js' })))
    assert.equal(opened.printed(await slow), '1\n2\n3\n4\n5\n')
    assert.equal(opened.printed(await next), '1\n2\n3\n4\n5\n')
  })
})

/** Answers as the agent of a sandbox with a token does. */
async function fakeAgent(token: string) {
  const agent = { token, port: 0, [Symbol.asyncDispose]: async () => void server.close() }
  const server = createServer((request, response) => {
    const isKnown = request.headers['x-access-token'] === agent.token
    response.writeHead(isKnown ? 200 : 401).end('{}')
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  agent.port = (server.address() as AddressInfo).port
  return agent
}
