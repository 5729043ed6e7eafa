import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { splitCommand } from './command-line.ts'

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
})
