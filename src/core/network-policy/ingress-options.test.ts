import assert from 'node:assert/strict'
import { it } from 'node:test'
import { isAppError } from '../../lib/app-error.ts'
import { checkIngress } from './ingress-options.ts'
import type { IngressOptions } from './network-options.ts'

const refuses = (options: IngressOptions, says: RegExp) =>
  assert.throws(
    () => checkIngress(options),
    (error) => isAppError(error, 'invalid_argument') && says.test(error.message),
    JSON.stringify(options),
  )

it('a masked host is an ASCII host with or without a port', () => {
  for (const mask of ['localhost', 'a.test:8080', `localhost:\${PORT}`, `\${PORT}.a.test`, '127.0.0.1']) {
    checkIngress({ maskRequestHost: mask })
  }
  const bad = [
    'a b',
    'a\r\nb',
    'ü.test',
    'a:',
    'a:0',
    'a:65536',
    'a:b',
    '/',
    'http://a',
    'a/b',
    '-a',
    '[::1]',
  ]
  for (const mask of bad) refuses({ maskRequestHost: mask }, /invalid maskRequestHost/)
})

it('https ports are at most 128 different ports, and not the agent’s', () => {
  checkIngress({ httpsPorts: [1, 443, 65535] })
  checkIngress({ httpsPorts: null, maskRequestHost: null })
  refuses({ httpsPorts: Array.from({ length: 129 }, (_, at) => at + 1) }, /at most 128/)
  refuses({ httpsPorts: [80, 80] }, /twice/)
  refuses({ httpsPorts: [49983] }, /agent/)
  for (const port of [0, -1, 65536, 1.5]) refuses({ httpsPorts: [port] }, /not a port/)
})
