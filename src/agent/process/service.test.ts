import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  begin,
  collect,
  decode,
  endOf,
  envelope,
  type Frame,
  frames,
  type Json,
  livingMembers,
  shell,
  start,
  token,
  useAgent,
} from '../agent-suite.ts'

const agent = useAgent()

suite('Start', () => {
  test('reports the start, the output and the end, in this order, and then ends the stream', async () => {
    const result = await agent.run('echo out; echo err >&2; exit 3')
    assert.equal(result.kinds[0], 'start')
    assert.deepEqual(result.kinds.slice(-2), ['end', 'eos'])
    assert.equal(result.stdout, 'out\n')
    assert.equal(result.stderr, 'err\n')
    assert.deepEqual(result.end, {
      exitCode: 3,
      exited: true,
      status: 'exit status 3',
      error: 'exit status 3',
    })
    assert.equal(result.error, undefined)
  })

  test('a clean end has no error', async () => {
    assert.deepEqual((await agent.run('true')).end, { exited: true, status: 'exit status 0' })
  })

  test('a process ended by a signal has exit code -1 and the name of the signal', async () => {
    const killed = await agent.run('kill -9 $$')
    assert.deepEqual(killed.end, { exitCode: -1, status: 'signal: killed', error: 'signal: killed' })
    const terminated = await agent.run('kill -15 $$')
    assert.equal(terminated.end?.status, 'signal: terminated')
  })

  test('the reported pid is that of the process', async () => {
    const result = await agent.run('echo $$')
    assert.equal(result.stdout, `${result.pid}\n`)
  })

  test('the standard streams are pipes that can be opened again', async () => {
    const result = await agent.run(
      'echo a > /dev/stdout; echo b > /dev/stderr; test -p /dev/fd/1 && echo pipe',
    )
    assert.equal(result.stdout, 'a\npipe\n')
    assert.equal(result.stderr, 'b\n')
  })

  test('another user can also open its streams again', async () => {
    const result = await agent.run('id -un; echo b > /dev/stderr', {
      user: 'nobody',
      request: { process: { cwd: '/' } },
    })
    assert.equal(result.stdout, 'nobody\n')
    assert.equal(result.stderr, 'b\n')
  })

  test('only the three standard streams are inherited', async () => {
    // What the tests themselves were started with is not ours to close.
    const plain = execFileSync('/bin/sh', ['-c', 'ls /proc/$$/fd'], { encoding: 'utf8' })
    assert.equal((await agent.run('ls /proc/$$/fd')).stdout, plain)
  })

  test('a process leads a group and a session of its own', async () => {
    const result = await agent.run('cut -d" " -f 5,6 /proc/$$/stat')
    assert.equal(result.stdout, `${result.pid} ${result.pid}\n`)
  })

  test('without stdin the process reads the end at once', async () => {
    assert.equal((await agent.run('cat; echo done')).stdout, 'done\n')
  })

  test('a process has the variables of its user, then those for all processes, then those of the request', async () => {
    const result = await agent.run('echo $HOME,$USER,$LOGNAME,$GLOBAL,$OWN', {
      user: 'nobody',
      request: { process: { cwd: '/', envs: { OWN: 'x', LOGNAME: 'other' } } },
    })
    assert.equal(result.stdout, '/nonexistent,nobody,other,yes,x\n')
  })

  test('the token and the agent’s own environment do not reach a process', async () => {
    const { stdout } = await agent.run('env; tr "\\0" "\\n" < /proc/$PPID/environ; cat /proc/$PPID/cmdline')
    assert.ok(!stdout.includes(token))
    const own = await agent.run('env')
    assert.deepEqual(
      own.stdout
        .trim()
        .split('\n')
        .map((line) => line.split('=', 1)[0])
        .filter((name) => !['_', 'PWD', 'SHLVL', 'OLDPWD'].includes(name!))
        .sort(),
      ['GLOBAL', 'HOME', 'LOGNAME', 'PATH', 'USER'],
    )
  })

  test('an empty cwd is the default one, a relative one lies in the home', async () => {
    assert.equal((await agent.run('pwd')).stdout, `${agent.folder}\n`)
    assert.equal((await agent.run('pwd', { request: { process: { cwd: '~' } } })).stdout, '/root\n')
  })

  test('the kernel prefers to kill a command rather than the agent when memory is short, from the first moment on', async () => {
    const own = () => Number(readFileSync('/proc/self/oom_score_adj', 'latin1'))
    const before = own()
    for (let round = 0; round < 10; round++) {
      const { stdout } = await agent.run('cat /proc/self/oom_score_adj')
      assert.equal(Number(stdout), Math.min(before + 100, 1000))
    }
    assert.equal(own(), before)
  })

  test('a missing cwd is rejected', async () => {
    const { error } = await agent.run('pwd', { request: { process: { cwd: '/no/such' } } })
    assert.deepEqual(error, { code: 'invalid_argument', message: "cwd '/no/such' does not exist" })
  })

  test('a cwd that the user may not enter is rejected', async () => {
    const closed = join(agent.folder, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    const request = { process: { cwd: closed } }
    const { error } = await agent.run('pwd', { user: 'nobody', request })
    assert.deepEqual(error, {
      code: 'invalid_argument',
      message: `cwd '${closed}' cannot be entered by 'nobody': permission denied`,
    })
    assert.equal((await agent.run('pwd', { request })).stdout, `${closed}\n`)
  })

  test('an unknown user is rejected', async () => {
    const { error } = await agent.run('id', { user: 'nouser' })
    assert.deepEqual(error, { code: 'unauthenticated', message: "invalid username: 'nouser'" })
  })

  test('a program that is not there is rejected', async () => {
    const { error } = await agent.run('', { request: { process: { cmd: '/no/such/program', args: [] } } })
    assert.equal(error?.code, 'invalid_argument')
  })

  test('a zero byte in an argument is rejected', async () => {
    const { error } = await agent.run('echo \0')
    assert.equal(error?.code, 'invalid_argument')
  })

  test('a command that is too long is rejected, with what to do', async () => {
    const { error } = await agent.run(`echo ${'x'.repeat(200_000)}`)
    assert.match(String(error?.message), /^'\S+' could not be started: an argument or variable is too long/)
    assert.equal(error?.code, 'invalid_argument')
  })

  test('long output arrives whole, in chunks of at most 32 KiB', async () => {
    let length = 0
    for await (const { message } of agent.stream(start, shell('head -c 3000000 /dev/zero'))) {
      const data = (message.event as Json | undefined)?.data as Json | undefined
      const chunk = Buffer.from((data?.stdout as string) ?? '', 'base64')
      assert.ok(chunk.length <= 32 * 1024)
      length += chunk.length
    }
    assert.equal(length, 3_000_000)
  })

  test('an end is reported although a child keeps the output open', async () => {
    const result = await agent.run('sleep 30 & echo started; echo $!')
    assert.equal(result.end?.status, 'exit status 0')
    process.kill(Number(result.stdout.split('\n')[1]))
  })

  test('the deadline kills the process and its children', async () => {
    const result = await agent.run('sleep 60; true', { headers: { 'connect-timeout-ms': '100' } })
    assert.equal(result.error?.code, 'deadline_exceeded')
    assert.equal(result.end, undefined)
    while (livingMembers(result.pid!).length > 0) await nextTurn()
  })

  test('a process that dies at its deadline is reported as timed out, however soon it is dead', async () => {
    const limit = { headers: { 'connect-timeout-ms': '30' } }
    const results = await Promise.all(Array.from({ length: 20 }, () => agent.run('exec sleep 60', limit)))
    for (const { error, end } of results)
      assert.deepEqual([error?.code, end], ['deadline_exceeded', undefined])
  })

  test('a process that exited in time is reported with its exit code, although others hold its output open at the deadline', async () => {
    for (const pty of [undefined, {}]) {
      const request = pty ? { pty } : {}
      const limit = { headers: { 'connect-timeout-ms': '700' }, request }
      const { end, error } = await agent.run('trap "" HUP; sleep 2 & echo done; exit 3', limit)
      assert.deepEqual([end?.exitCode, error], [3, undefined])
    }
  })

  test('the deadline ends a process whose client has left', async () => {
    const response = await agent.open(
      'POST',
      `/${start}`,
      {
        'content-type': 'application/connect+json',
        'x-access-token': token,
        'connect-timeout-ms': '400',
      },
      envelope(shell('sleep 60; true')),
    )
    const first = (await frames(response).next()).value as Frame
    const pid = ((first.message.event as Json).start as Json).pid as number
    response.destroy()
    const followed = agent.stream('process.Process/Connect', { process: { pid } })
    assert.equal((await endOf(followed))?.status, 'signal: killed')
    while (livingMembers(pid).length > 0) await nextTurn()
  })

  test('a time limit longer than any timer is no limit', async () => {
    const result = await agent.run('echo fine', { headers: { 'connect-timeout-ms': '9999999999' } })
    assert.equal(result.stdout, 'fine\n')
  })

  test('a silent process gets keep-alive messages at the requested interval', async () => {
    const result = await agent.run('sleep 1.5', { headers: { 'keepalive-ping-interval': '1' } })
    assert.deepEqual(result.kinds, ['start', 'keepalive', 'end', 'eos'])
  })

  test('a lost client does not end the process, and its output is drained', async () => {
    const marker = join(agent.folder, 'went-on')
    const response = await agent.open(
      'POST',
      `/${start}`,
      { 'content-type': 'application/connect+json', 'x-access-token': token },
      envelope(shell(`head -c 1000000 /dev/zero; echo done > ${marker}; sleep 60`)),
    )
    const first = (await frames(response).next()).value as Frame
    const pid = ((first.message.event as Json).start as Json).pid as number
    response.destroy()
    const { stream } = { stream: agent.stream('process.Process/Connect', { process: { pid } }) }
    await stream.next()
    while (!(await agent.run(`cat ${marker}`)).stdout) {}
    await agent.unary('process.Process/SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' })
    assert.equal((await endOf(stream))?.status, 'signal: killed')
  })

  test('a reader that stops holds the process up instead of filling memory', async () => {
    const counter = join(agent.folder, 'counter')
    const response = await agent.open(
      'POST',
      `/${start}`,
      { 'content-type': 'application/connect+json', 'x-access-token': token },
      envelope(
        shell(
          `i=0; while [ $i -lt 100 ]; do head -c 262144 /dev/zero; i=$((i+1)); echo $i > ${counter}; done`,
        ),
      ),
    )
    response.pause()
    const count = () => Number(readFileSync(counter, 'utf8'))
    let before = -1
    while (before < 1 || count() !== before) {
      before = await agent.run(`sleep 0.3; cat ${counter}`).then(({ stdout }) => Number(stdout))
    }
    assert.ok(before < 100, `all ${before} chunks were taken although nobody read them`)
    let length = 0
    for await (const { message } of frames(response)) {
      length += decode(((message.event as Json | undefined)?.data as Json | undefined)?.stdout).length
    }
    assert.equal(length, 100 * 262_144)
  })
})

suite('selecting processes', () => {
  test('List returns running processes, with their command and tag', async () => {
    const { pid } = await begin(agent, shell('sleep 60', { tag: 'listed' }))
    const { json } = await agent.unary('process.Process/List', {})
    const found = (json.processes as Json[]).find((process) => process.pid === pid)
    assert.deepEqual(found, { config: { cmd: '/bin/sh', args: ['-c', 'sleep 60'] }, pid, tag: 'listed' })
  })

  test('a tag selects like a pid', async () => {
    const { stream } = await begin(agent, shell('sleep 60', { tag: 'mine' }))
    const selected = { process: { tag: 'mine' }, signal: 'SIGNAL_SIGTERM' }
    assert.equal((await agent.unary('process.Process/SendSignal', selected)).status, 200)
    assert.equal((await endOf(stream))?.status, 'signal: terminated')
  })

  test('a process is gone, in the eyes of everybody, when the answer to its kill comes', async () => {
    for (let count = 0; count < 20; count++) {
      const { pid } = await begin(agent, shell('exec sleep 60'))
      const selected = { process: { pid }, signal: 'SIGNAL_SIGKILL' }
      assert.equal((await agent.unary('process.Process/SendSignal', selected)).status, 200)
      assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' })
    }
  })

  test('a signal reaches the children of a shell', async () => {
    const { pid, stream } = await begin(agent, shell('sleep 60; true'))
    await agent.unary('process.Process/SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' })
    assert.equal((await endOf(stream))?.status, 'signal: killed')
    while (livingMembers(pid).length > 0) await nextTurn()
  })

  test('an unknown process is not_found', async () => {
    for (const [selector, message] of [
      [{ pid: 999_999 }, 'process with pid 999999 not found'],
      [{ tag: 'nobody' }, 'process with tag nobody not found'],
    ] as const) {
      const answer = await agent.unary('process.Process/SendSignal', {
        process: selector,
        signal: 'SIGNAL_SIGKILL',
      })
      assert.equal(answer.status, 404)
      assert.deepEqual(answer.json, { code: 'not_found', message })
    }
  })

  test('other signals are not supported', async () => {
    const { pid } = await begin(agent, shell('sleep 60'))
    const answer = await agent.unary('process.Process/SendSignal', { process: { pid } })
    assert.equal(answer.status, 501)
  })

  test('Connect follows a running process from now on', async () => {
    const { pid, stream } = await begin(agent, shell('echo before; read x; echo after', { stdin: true }))
    await stream.next()
    const joined = agent.stream('process.Process/Connect', { process: { pid } })
    assert.deepEqual((await joined.next()).value, { flags: 0, message: { event: { start: { pid } } } })
    await agent.unary('process.Process/SendInput', {
      process: { pid },
      input: { stdin: Buffer.from('\n').toString('base64') },
    })
    let text = ''
    for await (const { message } of joined) text += decode(((message.event as Json)?.data as Json)?.stdout)
    assert.equal(text, 'after\n')
  })

  test('Connect to a process that has ended returns its end', async () => {
    const { pid } = await agent.run('exit 7')
    const seen = await collect(agent.stream('process.Process/Connect', { process: { pid: pid! } }))
    assert.deepEqual(
      seen.map(({ message }) => Object.keys((message.event as Json) ?? {})[0]),
      ['start', 'end', undefined],
    )
    assert.equal(((seen[1]!.message.event as Json).end as Json).exitCode, 7)
    const signalled = await agent.unary('process.Process/SendSignal', {
      process: { pid: pid! },
      signal: 'SIGNAL_SIGKILL',
    })
    assert.equal(signalled.status, 404)
  })

  test('Connect to an unknown process is not_found in the end of the stream', async () => {
    const [frame] = await collect(agent.stream('process.Process/Connect', { process: { pid: 999_999 } }))
    assert.equal((frame!.message.error as Json).code, 'not_found')
  })
})

test('the binary codec works as the JSON one does', async () => {
  const answer = await agent.fetch(
    'POST',
    '/process.Process/List',
    { 'content-type': 'application/proto' },
    Buffer.alloc(0),
  )
  assert.equal(answer.status, 200)
  assert.equal(answer.headers['content-type'], 'application/proto')
})

test('identity as an encoding is no encoding', async () => {
  assert.equal(
    (await agent.unary('process.Process/List', {}, { 'content-encoding': 'identity' })).status,
    200,
  )
  const result = await agent.run('echo x', {
    headers: {
      'connect-content-encoding': 'identity',
      'connect-accept-encoding': 'identity',
      'accept-encoding': 'zstd,gzip,br',
    },
  })
  assert.equal(result.stdout, 'x\n')
})

test('a working directory may be a link', async () => {
  mkdirSync(join(agent.folder, 'real'))
  symlinkSync('real', join(agent.folder, 'link'))
  const { stdout } = await agent.run('pwd -P', { request: { process: { cwd: join(agent.folder, 'link') } } })
  assert.equal(stdout, `${join(agent.folder, 'real')}\n`)
})
