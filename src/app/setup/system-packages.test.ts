import assert from 'node:assert/strict'
import test from 'node:test'
import { missingNeeds, systemNeeds } from './system-packages.ts'

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

test('every need says why', () => {
  assert.deepEqual(
    systemNeeds.filter((need) => need.why === ''),
    [],
  )
})
