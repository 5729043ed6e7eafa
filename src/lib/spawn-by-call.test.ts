import assert from 'node:assert/strict'
import { text } from 'node:stream/consumers'
import { describe, it } from 'node:test'
import { type SpawnOptions, spawnByCall } from './spawn-by-call.ts'

function spawn(program: string, args: readonly string[], options: SpawnOptions) {
  const child = spawnByCall(program, args, options)
  assert.ok(child, 'there is the call, and the addon for it')
  return child
}

describe('a program that the C library starts', () => {
  const run = async (script: string, options = {}) => {
    const child = spawn('sh', ['-c', script, 'sh', 'with spaces', ''], { hasInput: false, ...options })
    const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), child.exited])
    return { stdout, stderr, code }
  }

  it('gets its arguments, its variables and its folder', async () => {
    const script = 'echo "$1|$2|$#|$NAME|$(pwd)"; echo wrong >&2; exit 3'
    const { PATH } = process.env
    assert.deepEqual(await run(script, { env: { NAME: 'a=b', PATH }, cwd: '/proc' }), {
      stdout: 'with spaces||2|a=b|/proc\n',
      stderr: 'wrong\n',
      code: 3,
    })
  })

  it('has none of our files open, and every signal has its default action', async () => {
    const script = 'echo /proc/self/fd/*; grep -E "SigIgn|SigBlk" /proc/self/status'
    const other = spawn('cat', [], { hasInput: true })
    const beside = await run(script)
    other.kill()
    for (const output of [other.stdout, other.stderr]) output.resume()
    await other.exited
    assert.deepEqual(beside, await run(script))
    assert.equal(beside.stdout.match(/0{16}/g)?.length, 2)
  })

  it('reads its input, and has no exit code if it is killed', async () => {
    const child = spawn('sh', ['-c', 'read line; echo $line; exec sleep 60'], { hasInput: true })
    child.stdin!.write('hello\n')
    const [first] = await child.stdout.take(1).toArray()
    assert.equal(String(first), 'hello\n')
    child.kill()
    child.stdout.resume()
    child.stderr.resume()
    assert.equal(await child.exited, null)
    // Its end has been read, so its pid may belong to another process.
    child.kill()
  })

  it('may have thousands of arguments and long ones, and too many are an error', async () => {
    const words = Array.from({ length: 10_000 }, (_, number) => `word ${number} of many`)
    const count = async (given: string[]) => {
      const child = spawn('sh', ['-c', 'echo $# $(expr length "$1")', 'sh', ...given], { hasInput: false })
      return (await Promise.all([text(child.stdout), text(child.stderr)]))[0]
    }
    assert.equal(await count(['x'.repeat(100_000), ...words]), '10001 100000\n')
    await assert.rejects(count(Array.from({ length: 100 }, () => 'x'.repeat(120_000))), /sh E2BIG/)
  })

  it('is an error with its name if it does not exist', async () => {
    const started = async () => spawn('/nowhere/program', [], { hasInput: false }).exited
    await assert.rejects(started, /\/nowhere\/program ENOENT/)
  })
})
