import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { splitCommand } from './command-line.ts'

const run = {
  texts: { template: 'NAME' },
  lists: { env: 'NAME=VALUE' },
  flags: ['interactive', 'tty'],
  shorts: { env: 'e', interactive: 'i', tty: 't' },
  takesImage: true,
}
const exec = { ...run, words: ['SANDBOX'], takesImage: false }

function split(verb: typeof run, line: string) {
  const { own, commandLine, image } = splitCommand(verb, line.split(' ').filter(Boolean))
  return [own.join(' '), commandLine?.join(' '), image]
}

describe('the command for a sandbox', () => {
  it('begins after --, or with the first word that is not an option', () => {
    assert.deepEqual(split(run, 'echo hi'), ['', 'echo hi', undefined])
    assert.deepEqual(split(run, '-e A=1 --template t ls -la --help'), [
      '-e A=1 --template t',
      'ls -la --help',
      undefined,
    ])
    assert.deepEqual(split(run, '-it -- ls -- x'), ['-it', 'ls -- x', undefined])
    assert.deepEqual(split(run, 'git diff -- file'), ['', 'git diff -- file', undefined])
    assert.deepEqual(split(run, '-it'), ['-it', undefined, undefined])
  })

  it("begins after the verb's own words", () => {
    assert.deepEqual(split(exec, 'box ls -la'), ['box', 'ls -la', undefined])
    assert.deepEqual(split(exec, '-it box bash'), ['-it box', 'bash', undefined])
    assert.deepEqual(split(exec, 'box -e A=1 -- ls -e'), ['box -e A=1', 'ls -e', undefined])
    assert.deepEqual(split(exec, '-- ls'), ['', 'ls', undefined])
  })

  it('may follow an image, which has a tag or stands alone before --', () => {
    assert.deepEqual(split(run, 'ubuntu:24.04 cat /etc/os-release'), [
      '',
      'cat /etc/os-release',
      'ubuntu:24.04',
    ])
    assert.deepEqual(split(run, '-it ghcr.io/a/b:1 -- bash'), ['-it', 'bash', 'ghcr.io/a/b:1'])
    assert.deepEqual(split(run, 'ubuntu -it -- bash'), ['-it', 'bash', 'ubuntu'])
    assert.deepEqual(split(run, 'python:3.12 -it'), ['-it', undefined, 'python:3.12'])
  })
})
