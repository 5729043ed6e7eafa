import assert from 'node:assert/strict'
import test from 'node:test'
import { AppError } from '../../lib/app-error.ts'
import { createProgress } from './progress.ts'
import { containerNeed, installContainerRuntime, missingNeeds, systemNeeds } from './system-packages.ts'

test('a program is found where programs are, a file by its path', () => {
  const needs = [
    { package: 'a', file: 'sh', why: '' },
    { package: 'b', file: '/etc/passwd', why: '' },
    { package: 'c', file: 'surely-no-program-of-this-name', why: '' },
    { package: 'd', file: '/etc/surely/no/such/file', why: '' },
  ]
  assert.deepEqual(
    missingNeeds(needs).map((need) => need.package),
    ['c', 'd'],
  )
})

test('every required program has a reason', () => {
  assert.deepEqual(
    [...systemNeeds, containerNeed].filter((need) => need.why === ''),
    [],
  )
})

test('a machine whose apt cannot install runc uses gVisor, and fails without gVisor', async () => {
  const said: string[] = []
  const progress = createProgress({ write: (text) => void said.push(text) })
  const asked: string[] = []
  const failing = async (needs: readonly { package: string }[]) => {
    asked.push(...needs.map((need) => need.package))
    throw new AppError('unavailable', 'apt-get found no runc')
  }
  await assert.rejects(installContainerRuntime(false, progress, failing), /apt-get found no runc/)
  assert.equal(said.join(''), '')
  await installContainerRuntime(true, progress, failing)
  assert.match(said.join(''), /continues without runc, since sandboxes get gVisor\. apt-get found no runc/)
  assert.deepEqual(asked, ['runc', 'runc'])
  assert.ok(!systemNeeds.includes(containerNeed))
})
