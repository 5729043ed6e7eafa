import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { isInternalAgentPath } from './agent-paths.ts'

describe('an internal agent path', () => {
  const hidden = [
    '/init',
    '/init/',
    '//init',
    '/INIT',
    '/Init?x=/health',
    '/%69nit',
    '/%2569nit',
    '/in%69t',
    '/./init',
    '/x/../init',
    '/files/..%2finit',
    '/files/..%252Finit',
    '/..\\init',
    '/%5cinit',
    '/init%20',
    '/init%00',
    '/init%09',
    '/init;x',
    '/init#x',
    '/init%3fx',
    '/init%23',
    '/init/x',
    '/relay?port=22',
    '/relay/',
    '/freeze',
    '/unfreeze',
    '/collapse',
    '/fsfreeze',
    '/fsthaw',
    '/upgrade',
    `/%${'25'.repeat(40)}69nit`,
  ]
  for (const path of hidden)
    it(`is recognized in ${path.slice(0, 40)}`, () => assert.equal(isInternalAgentPath(path), true))

  const open = [
    '/',
    '/health',
    '/metrics',
    '/envs',
    '/files',
    '/files?path=/init',
    '/files?path=%2Finit',
    '/files/compose',
    '/process.Process/Start',
    '/filesystem.Filesystem/ListDir',
    '/initial',
    '/reinit',
    '/%zz',
    '/%',
    '/100%25',
  ]
  for (const path of open) it(`is not seen in ${path}`, () => assert.equal(isInternalAgentPath(path), false))
})
