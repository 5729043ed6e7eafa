import assert from 'node:assert/strict'
import { test } from 'node:test'
import { issueCertificate, makeAuthority } from '../../lib/certificates.ts'
import { loadConfig } from '../config/config.ts'
import { acmePlan, isDue, isUsable, planText } from './acme-plan.ts'

const asked = { WARREN_DOMAIN: 'box.example:8443', WARREN_ACME: 'staging', WARREN_DATA_DIR: '/data' }
const dayMs = 24 * 3_600_000

test('proof by DNS gets a wildcard, proof by HTTP the two names that clients need', () => {
  const byDns = acmePlan(loadConfig({ ...asked, WARREN_ACME_DNS: '/opt/set  record' }))!
  assert.deepEqual([byDns.challenge, byDns.names], ['dns-01', ['box.example', '*.box.example']])
  assert.deepEqual(byDns.dnsProgram, ['/opt/set', 'record'])
  const byHttp = acmePlan(loadConfig({ ...asked, WARREN_ACME_EMAIL: 'ops@box.example' }))!
  assert.deepEqual([byHttp.challenge, byHttp.names], ['http-01', ['api.box.example', 'sandbox.box.example']])
  assert.equal(byHttp.email, 'ops@box.example')
  assert.notEqual(planText(byDns), planText(byHttp))
  assert.equal(acmePlan(loadConfig({ WARREN_DOMAIN: 'box.example' })), undefined)
})

test('the server then uses the files in the data folder', () => {
  const { tlsCert, tlsKey, domain } = loadConfig({
    ...asked,
    WARREN_DOMAIN: 'box.example',
    WARREN_PORT: '8443',
  })
  assert.deepEqual([tlsCert, tlsKey], ['/data/acme/cert.pem', '/data/acme/key.pem'])
  assert.equal(domain, 'box.example:8443')
})

test('settings that contradict each other, or are no directory, are refused', () => {
  const refuses = (env: Record<string, string>, says: RegExp) =>
    assert.throws(
      () => loadConfig(env),
      (error: Error) => says.test(error.message),
    )
  refuses({ WARREN_ACME: 'staging' }, /WARREN_ACME needs WARREN_DOMAIN/)
  refuses({ ...asked, WARREN_TLS_CERT: '/c', WARREN_TLS_KEY: '/k' }, /unset WARREN_TLS_CERT/)
  refuses({ ...asked, WARREN_ACME: 'yes' }, /staging, production, or a URL/)
  refuses({ ...asked, WARREN_ACME: 'http://ca.example' }, /begins with https/)
  refuses({ ...asked, WARREN_ACME_DNS: 'hook' }, /absolute path/)
  refuses({ ...asked, WARREN_ACME_EMAIL: 'nobody' }, /an e-mail address/)
})

test('a certificate is usable for its names until its end, and due in its last third', () => {
  const now = Date.now()
  const { names } = acmePlan(loadConfig({ ...asked, WARREN_ACME_DNS: '/set' }))!
  const plan = { ...acmePlan(loadConfig(asked))!, names }
  const leaf = (ofNames: readonly string[]) => {
    const { certificate, key } = issueCertificate(makeAuthority('ca'), { names: ofNames, days: 90 })
    return { cert: certificate, key }
  }
  assert.equal(isUsable(leaf(names), plan, now), true)
  assert.equal(isUsable(leaf(['box.example']), plan, now), false)
  assert.equal(isUsable(leaf(names), plan, now + 91 * dayMs), false)
  assert.deepEqual(
    [59, 61].map((days) => isDue(leaf(names), now + days * dayMs)),
    [false, true],
  )
})
