import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { splitCommand } from './command-line.ts'
import { runCommand } from './run.ts'

const run = {
  texts: { template: 'NAME' },
  lists: { env: 'NAME=VALUE' },
  flags: ['interactive', 'tty'],
  shorts: { env: 'e', interactive: 'i', tty: 't' },
}
const exec = { ...run, words: ['SANDBOX'] }

function split(verb: typeof run, line: string) {
  const { own, commandLine } = splitCommand(verb, line.split(' ').filter(Boolean))
  return [own.join(' '), commandLine?.join(' ')]
}

describe('the command for a sandbox', () => {
  it('begins after --, or with the first word that is not an option', () => {
    assert.deepEqual(split(run, 'echo hi'), ['', 'echo hi'])
    assert.deepEqual(split(run, '-e A=1 --template t ls -la --help'), [
      '-e A=1 --template t',
      'ls -la --help',
    ])
    assert.deepEqual(split(run, '-it -- ls -- x'), ['-it', 'ls -- x'])
    assert.deepEqual(split(run, 'git diff -- file'), ['', 'git diff -- file'])
    assert.deepEqual(split(run, '-it'), ['-it', undefined])
  })

  it("begins after the verb's own words", () => {
    assert.deepEqual(split(exec, 'box ls -la'), ['box', 'ls -la'])
    assert.deepEqual(split(exec, '-it box bash'), ['-it box', 'bash'])
    assert.deepEqual(split(exec, 'box -e A=1 -- ls -e'), ['box -e A=1', 'ls -e'])
    assert.deepEqual(split(exec, '-- ls'), ['', 'ls'])
  })

  it('of run comes after an image: a word with a tag or a digest, or any word before --', () => {
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
})
