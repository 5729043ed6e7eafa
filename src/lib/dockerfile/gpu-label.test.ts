import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseDockerfile } from './parse.ts'

const parse = (line: string) => parseDockerfile(`FROM debian\n${line}\n`)

test('a Dockerfile asks for GPUs by a label', () => {
  assert.equal(parse('LABEL warren.gpus=2').gpuCount, 2)
  assert.equal(parse('LABEL version="1" "warren.gpus"="1"').gpuCount, 1)
  assert.throws(() => parse('LABEL warren.gpus=all'), /warren\.gpus is a number of GPUs, not 'all'/)
})

test('other labels are noted and ignored', () => {
  const { gpuCount, notes } = parse('LABEL maintainer=me')
  assert.equal(gpuCount, undefined)
  assert.match(notes.join(), /LABEL is ignored: templates have no labels/)
})
