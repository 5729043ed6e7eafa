import assert from 'node:assert/strict'
import { test } from 'node:test'
import { splitCommand } from './command-line.ts'
import { runCommand } from './run.ts'

test('run takes an image before the command: a word with a tag or a digest, or any word before --', () => {
  const digest = `ubuntu@sha256:${'0'.repeat(64)}`
  const withImage: [string[], string, string[] | undefined][] = [
    [['ubuntu:24.04', '--', 'ls', '-l'], 'ubuntu:24.04', ['ls', '-l']],
    [['ubuntu:24.04', 'ls', '-l'], 'ubuntu:24.04', ['ls', '-l']],
    [['-it', 'ubuntu:24.04'], 'ubuntu:24.04', undefined],
    [['--cpu', '2', 'ubuntu', '--', 'sh'], 'ubuntu', ['sh']],
    [['localhost:5000/team/app:1.0', 'sh'], 'localhost:5000/team/app:1.0', ['sh']],
    [[digest, 'sh'], digest, ['sh']],
  ]
  for (const [args, image, commandLine] of withImage) {
    const split = splitCommand(runCommand.verb, args)
    assert.deepEqual(
      [split.own.slice(-2), split.commandLine],
      [['--image', image], commandLine],
      args.join(' '),
    )
  }
  const without: [string[], string[] | undefined][] = [
    [['ls'], ['ls']],
    [
      ['echo', 'ubuntu:24.04'],
      ['echo', 'ubuntu:24.04'],
    ],
    [['--', 'ubuntu:24.04'], ['ubuntu:24.04']],
    [['./bin/a:b'], ['./bin/a:b']],
    [
      ['/usr/bin/env', 'A=b'],
      ['/usr/bin/env', 'A=b'],
    ],
    [['-it'], undefined],
  ]
  for (const [args, commandLine] of without) {
    const split = splitCommand(runCommand.verb, args)
    assert.ok(!split.own.includes('--image'), args.join(' '))
    assert.deepEqual(split.commandLine, commandLine)
  }
})
