import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import test, { after, beforeEach } from 'node:test'
import { UsageError } from './arguments.ts'
import { plainLines } from './output.ts'
import { type TemplateCommandParts, templateVerbs } from './template.ts'
import { TemplateClient } from './template-client.ts'
import { runVerb } from './verbs.ts'

const root = mkdtempSync(join(tmpdir(), 'warren-template-test-'))
after(() => rmSync(root, { recursive: true, force: true }))

function folderOf(name: string, files: Record<string, string>): string {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name, path)), { recursive: true })
    writeFileSync(join(root, name, path), text)
  }
  return join(root, name)
}

/** Answers like the server and remembers what it was asked. */
type Asked = { method: string; path: string; key: unknown; body: Buffer }
let asked: Asked[] = []
let logs: string[] = []
let end: Record<string, unknown> = {}
let refusal: [number, string] | undefined
const present = new Set<string>()
const server = http.createServer(async (request, response) => {
  const { method = '', url: path = '', headers } = request
  const body = await buffer(request)
  asked.push({ method, path, key: headers['x-api-key'], body })
  const answer = (status: number, value?: unknown) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(value && JSON.stringify(value))
  if (refusal) return answer(refusal[0], { code: refusal[0], message: refusal[1] })
  if (path === '/v3/templates') {
    const { name, tags } = JSON.parse(body.toString())
    const all = tags.length > 0 ? tags : ['default']
    return answer(202, {
      templateID: 't1',
      buildID: 'b1',
      public: false,
      names: [`team/${name}`],
      tags: all,
      aliases: [],
    })
  }
  const hash = /^\/templates\/t1\/files\/([0-9a-f]{64})$/.exec(path)?.[1]
  if (hash) return answer(201, { present: present.has(hash), url: `${url}/put/${hash}?signature=x` })
  if (method === 'PUT' && path.startsWith('/put/')) return answer(200)
  if (path === '/v2/templates/t1/builds/b1') return answer(202)
  const offset = /^\/templates\/t1\/builds\/b1\/status\?logsOffset=(\d+)$/.exec(path)?.[1]
  if (!offset) return answer(500, { message: `not expected: ${method} ${path}` })
  // Two lines at a time, and the end is there before the last of them.
  const shown = logs.slice(Number(offset), Number(offset) + 2)
  const isLast = Number(offset) >= 2
  const logEntries = shown.map((message) => ({ message, level: 'info', timestamp: '' }))
  answer(200, { status: 'building', logEntries, ...(isLast && end) })
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
after(() => server.close())
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

beforeEach(() => {
  asked = []
  said = []
  logs = ['zero', 'half', 'one', 'two \x1b[31mred\x1b[0m', 'three\x1b]0;title\x07']
  end = { status: 'ready' }
  refusal = undefined
  present.clear()
})

let said: string[] = []
const unasked: TemplateCommandParts = {
  connect: assert.fail,
  connectAdmin: assert.fail,
  connectTeam: assert.fail,
  print: () => {},
}
const run = (...args: string[]) =>
  runVerb(templateVerbs, ['build', ...args], {
    ...unasked,
    connect: async () => new TemplateClient({ url, apiKey: 'e2b_1' }),
    print: (line, aside) => void said.push(`${aside ? 'aside: ' : ''}${line}`),
  })
const bodyOf = (path: string) => JSON.parse(asked.find((one) => one.path === path)!.body.toString())

test('a build is requested, its files are sent, it is started and followed to its end', async () => {
  const text = ['FROM e2bdev/base', 'EXPOSE 80', 'COPY --chmod=640 src /srv/', 'RUN make', 'CMD serve'].join(
    '\n',
  )
  const folder = folderOf('My-App', {
    Dockerfile: text,
    'src/a': '1',
    'src/b.log': '2',
    '.dockerignore': '**/*.log',
  })
  const end = await run(folder, '--cpu', '1', '--memory', '256', '--tag', 'v1', '--tag', 'v2', '--no-cache')
  assert.match(end, /The template my-app:v1 is ready.*Sandbox\.create\('my-app:v1'\)/)
  assert.deepEqual(bodyOf('/v3/templates'), {
    name: 'my-app',
    tags: ['v1', 'v2'],
    cpuCount: 1,
    memoryMB: 256,
  })
  const started = bodyOf('/v2/templates/t1/builds/b1')
  const hash = started.steps[2].filesHash
  assert.deepEqual(started, {
    fromImage: 'e2bdev/base',
    startCmd: 'serve',
    readyCmd: 'sleep 20',
    force: true,
    steps: [
      { type: 'USER', args: ['root'], filesHash: null },
      { type: 'WORKDIR', args: ['/'], filesHash: null },
      { type: 'COPY', args: ['src', '/srv/', '', '0640'], filesHash: hash },
      { type: 'RUN', args: ['make'], filesHash: null },
      { type: 'USER', args: ['user'], filesHash: null },
      { type: 'WORKDIR', args: ['/home/user'], filesHash: null },
    ],
  })
  const put = asked.find(({ method }) => method === 'PUT')!
  assert.equal(put.path, `/put/${hash}?signature=x`)
  assert.equal(execFileSync('tar', ['-tzf', '-'], { input: put.body }).toString(), 'src/\nsrc/a\n')
  assert.equal(put.key, undefined, 'the link alone gives the right to write')
  assert.ok(asked.every(({ method, key }) => method === 'PUT' || key === 'e2b_1'))
  assert.match(said[0]!, /^Note: line 2: EXPOSE is ignored/)
  assert.deepEqual(said.slice(-5), ['zero', 'half', 'one', 'two red', 'three?]0;title?'])
})

test('files that the server has are not sent again', async () => {
  const folder = folderOf('again', { Dockerfile: 'FROM a\nCOPY x /x', x: '1' })
  await run(folder)
  const [{ filesHash }] = bodyOf('/v2/templates/t1/builds/b1').steps.slice(2)
  asked = []
  present.add(filesHash)
  assert.match(await run(folder), /The template again is ready/)
  assert.ok(!asked.some(({ method }) => method === 'PUT'))
})

test('commands of the command line go before those of the Dockerfile, and arguments reach it', async () => {
  const folder = folderOf('cmd', { Dockerfile: 'ARG T=1\nFROM a:$T\nCMD x' })
  await run(folder, '--start-cmd', 'y', '--ready-cmd', 'true', '--build-arg', 'T=2=3', '--name', 'other:dev')
  const { fromImage, startCmd, readyCmd } = bodyOf('/v2/templates/t1/builds/b1')
  assert.deepEqual([fromImage, startCmd, readyCmd], ['a:2=3', 'y', 'true'])
  asked = []
  await run(folder, '--start-cmd', '')
  assert.equal(bodyOf('/v2/templates/t1/builds/b1').readyCmd, null)
})

test('with --json only the result is on standard output', async () => {
  const result = JSON.parse(await run(folderOf('json', { Dockerfile: 'FROM a' }), '--json'))
  assert.deepEqual(result, { templateID: 't1', buildID: 'b1', names: ['team/json'], tags: ['default'] })
  assert.ok(said.length > 0 && said.every((line) => line.startsWith('aside: ')))
})

test('a failed build is reported with the line of the Dockerfile', async () => {
  const folder = folderOf('fails', { Dockerfile: 'FROM a\n\nRUN one && \\\n two\nUSER x\nCMD y' })
  const failing = (step: string | undefined) => {
    end = { status: 'error', reason: { message: 'exit status 3', ...(step && { step }) } }
    return run(folder)
  }
  await assert.rejects(failing('3'), {
    message: 'The build failed in line 3 of the Dockerfile: exit status 3',
  })
  await assert.rejects(failing('4'), /in line 5 of/)
  await assert.rejects(failing('base'), /in line 1 of/)
  await assert.rejects(failing('finalize'), /failed at its start command: exit/)
  await assert.rejects(failing('99'), /^AppError: The build failed: exit status 3/)
  await assert.rejects(failing(undefined), /The build failed: exit status 3/)
  assert.ok(said.includes('one'))
})

test("a rejection is reported with the server's message", async () => {
  refusal = [401, 'Invalid API key']
  await assert.rejects(run(folderOf('refused', { Dockerfile: 'FROM a' })), /Invalid API key/)
})

test('bad input is rejected before anything is sent', async () => {
  const good = folderOf('good', { Dockerfile: 'FROM a' })
  const usageErrors = [[], [good, 'x'], [good, '--cpu', '0'], [good, '--wrong'], [good, '--build-arg', 'X']]
  for (const args of usageErrors) await assert.rejects(run(...args), UsageError, args.join(' '))
  await assert.rejects(run(root, '--name', 'x'), /There is no Dockerfile in/)
  await assert.rejects(run(join(good, 'Dockerfile'), '--name', 'x'), /There is no Dockerfile in/)
  await assert.rejects(run(folderOf('a name', { Dockerfile: 'FROM a' })), /give one with --name/)
  await assert.rejects(run(folderOf('none', { Dockerfile: 'FROM a\nCOPY x y' })), /line 2: there is no 'x'/)
  await assert.rejects(run(folderOf('zero', { Dockerfile: 'FROM a\nRUN \0' })), /is not a UTF-8 text/)
  await assert.rejects(run(folderOf('big', { Dockerfile: ' '.repeat(1024 * 1024 + 1) })), /larger than 1 MiB/)
  await assert.rejects(run(folderOf('bad', { Dockerfile: 'FROM a\nFROM b' })), /line 2: a second FROM/)
  assert.deepEqual(asked, [])
})

test('a server that does not answer is reported with the command that starts it', async () => {
  const connect = async () => new TemplateClient({ url: 'http://127.0.0.1:1', apiKey: 'x' })
  const folder = folderOf('alone', { Dockerfile: 'FROM a' })
  await assert.rejects(
    runVerb(templateVerbs, ['build', folder], { ...unasked, connect }),
    /does not answer at .*npm start/,
  )
})

test('help shows the usage', async () => {
  assert.match(await runVerb(templateVerbs, ['--help'], unasked), /\n {2}build +Makes a template/)
  for (const args of [
    ['build', '--help'],
    ['build', 'x', '-h'],
  ]) {
    assert.match(await runVerb(templateVerbs, args, unasked), /warren template build DIR/)
  }
  await assert.rejects(runVerb(templateVerbs, ['nix'], unasked), UsageError)
})

test('the output of a build cannot move the cursor', () => {
  assert.equal(plainLines('a\tb\x1b[2J\x1b[1;1Hc\r\x9b1m\x00\r\n'), 'a\tbc??1m?')
})
