import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatReference, parseReference } from './reference.ts'

const hex = 'a'.repeat(64)
const full: Record<string, string> = {
  debian: 'docker.io/library/debian:latest',
  'debian:12': 'docker.io/library/debian:12',
  'oven/bun:1.2': 'docker.io/oven/bun:1.2',
  'index.docker.io/library/debian': 'docker.io/library/debian:latest',
  'docker.io/debian': 'docker.io/library/debian:latest',
  'ghcr.io/a/b/c:v1': 'ghcr.io/a/b/c:v1',
  'localhost/x': 'localhost/x:latest',
  'localhost:5000/x': 'localhost:5000/x:latest',
  '[::1]:5000/x:t': '[::1]:5000/x:t',
  'Registry.Example.COM/x': 'registry.example.com/x:latest',
  [`debian@sha256:${hex}`]: `docker.io/library/debian@sha256:${hex}`,
  [`debian:12@sha256:${hex}`]: `docker.io/library/debian:12@sha256:${hex}`,
  'a__b-d/e_f.g': 'docker.io/a__b-d/e_f.g:latest',
}

for (const [given, meant] of Object.entries(full)) {
  test(`${given} means ${meant}`, () => assert.equal(formatReference(parseReference(given)), meant))
}

const refused = [
  ...[
    '',
    ':tag',
    'a:',
    'a@',
    'Debian',
    'a//b',
    '/a',
    'a/',
    'a b',
    'a\nb',
    '../x',
    'a/../b',
    'a/./b',
    '-a',
    'a?x=1',
    'a#b',
    'a%2fb',
  ],
  ...[
    'a:tag with space',
    `a:${'t'.repeat(129)}`,
    'a@sha256:123',
    `a@md5:${hex}`,
    `a@sha256:${hex}/x`,
    'host.com:port/x',
  ],
  ...[
    'user:password@host.com/x',
    'https://host.com/x',
    'evil.com\\@good.com/x',
    `${'a'.repeat(300)}/b`,
    'host.com:99999999/x',
  ],
]

for (const given of refused) {
  test(`${JSON.stringify(given.slice(0, 60))} is no name`, () => {
    assert.throws(() => parseReference(given), { code: 'invalid_argument' })
  })
}

test('a password in an image name is not quoted', () => {
  assert.throws(
    () => parseReference('user:hunter2@host.com/x'),
    (error: Error) => !error.message.includes('hunter2'),
  )
})
