import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { useAgent } from '../agent-suite.ts'

const agent = useAgent()

/** A program of one line in the agent's folder. */
function script(name: string, text: string, mode = 0o755): string {
  const path = join(agent.folder, name)
  writeFileSync(path, text)
  chmodSync(path, mode)
  return path
}

const program = (cmd: string, ...args: string[]) => ({ request: { process: { cmd, args } } })

suite('a process that is started', () => {
  test('has no signal ignored or blocked', async () => {
    const { stdout } = await agent.run('grep -E "^Sig(Blk|Ign)" /proc/self/status')
    assert.equal(stdout, 'SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n')
  })

  test('cannot become the user who started it again', async () => {
    const { stdout } = await agent.run('grep -E "^(Uid|Gid|Groups|CapPrm|CapEff|CapAmb)" /proc/self/status', {
      user: '65534:65534',
      request: { process: { cwd: '/' } },
    })
    const ids = '65534\t65534\t65534\t65534'
    const none = '0000000000000000'
    assert.equal(
      stdout,
      `Uid:\t${ids}\nGid:\t${ids}\nGroups:\t65534 \nCapPrm:\t${none}\nCapEff:\t${none}\nCapAmb:\t${none}\n`,
    )
  })

  test('gets the arguments of its request', async () => {
    const { stdout } = await agent.run('', program('sh', '-c', 'echo "$0,$1,$2"', 'zero', 'ä ö', ''))
    assert.equal(stdout, 'zero,ä ö,\n')
  })

  test('may have more variables than fit into the prepared memory', async () => {
    const text = 'ä'.repeat(60_000)
    const envs = Object.fromEntries(Array.from({ length: 8 }, (_, index) => [`LARGE${index}`, text]))
    const { stdout } = await agent.run('printf %s "$LARGE7" | wc -c', { request: { process: { envs } } })
    assert.equal(Number(stdout), Buffer.byteLength(text))
  })

  test('runs in the shell if its file names no interpreter', async () => {
    const path = script('plain', 'echo $0 $1\n')
    assert.equal((await agent.run('', program(path, 'given'))).stdout, `${path} given\n`)
  })

  test('is searched in the variable PATH of its request', async () => {
    mkdirSync(join(agent.folder, 'programs'))
    script('programs/own', '#!/bin/sh\necho found\n')
    const request = { process: { cmd: 'own', args: [], envs: { PATH: join(agent.folder, 'programs') } } }
    assert.equal((await agent.run('', { request })).stdout, 'found\n')
  })
})

suite('a process that cannot be started', () => {
  test('reports that its user may not run the program', async () => {
    const path = script('secret', '#!/bin/sh\n', 0o700)
    chmodSync(agent.folder, 0o755)
    const { error } = await agent.run('', { user: 'nobody', ...program(path) })
    assert.deepEqual(error, {
      code: 'invalid_argument',
      message: `'${path}' could not be started: permission denied`,
    })
  })

  test('leaves no zombie and no descriptor behind', async () => {
    const path = script('broken', '#!/no/such/interpreter\n')
    const open = () => readFileSync('/proc/self/status', 'latin1').match(/^FDSize.*$/m)?.[0]
    const before = open()
    for (let round = 0; round < 100; round++) {
      assert.match(String((await agent.run('', program(path))).error?.message), /no such file/)
    }
    assert.equal(open(), before)
    const { stdout } = await agent.run('ps -o stat= --ppid $PPID')
    assert.doesNotMatch(stdout, /Z/)
  })
})
