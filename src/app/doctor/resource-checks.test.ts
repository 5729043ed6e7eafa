import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { after } from 'node:test'
import { type AcmePlan, temporaryIssuer } from '../trust/acme-plan.ts'
import { judgeAcme, judgeTls } from './resource-checks.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-certificates-'))
after(() => rmSync(folder, { recursive: true, force: true }))

function makeCertificate(name: string, names: string) {
  const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)]
  const how = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-days',
    '30',
  ]
  const what = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=${names}`]
  execFileSync('openssl', [...how, ...what, '-keyout', key, '-out', cert], { stdio: 'ignore' })
  return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
}

const now = Date.now()
const dayMs = 86_400_000
const good = makeCertificate('good', 'DNS:box.example,DNS:*.box.example')
const narrow = makeCertificate('narrow', 'DNS:box.example')

test('a certificate for the wildcard of the domain is good', () => {
  assert.equal(judgeTls({ ...good, domain: 'box.example' }, now).status, 'ok')
})

test('a certificate that ends soon is a warning and one that has ended is a failure', () => {
  assert.equal(judgeTls({ ...good, domain: 'box.example' }, now + 20 * dayMs).status, 'warn')
  assert.equal(judgeTls({ ...good, domain: 'box.example' }, now + 40 * dayMs).status, 'fail')
})

test('a certificate without the wildcard, for another domain, or with another key is rejected', () => {
  assert.match(judgeTls({ ...narrow, domain: 'box.example' }, now).text, /not for api\.box\.example/)
  assert.equal(judgeTls({ ...good, domain: 'other.example' }, now).status, 'fail')
  assert.match(judgeTls({ cert: good.cert, key: narrow.key, domain: 'box.example' }, now).text, /not the key/)
})

const plan: AcmePlan = {
  directory: 'https://ca.example/directory',
  email: null,
  names: ['box.example', '*.box.example'],
  challenge: 'dns-01',
  dnsProgram: ['/set'],
}
const trouble = { message: 'no such record', failures: 3, retryAt: now + dayMs }

test('a certificate by ACME is good, a renewal that fails a warning, and none at all a failure', () => {
  const temporary = makeCertificate(temporaryIssuer, 'DNS:box.example,DNS:*.box.example')
  assert.equal(judgeAcme(plan, good, undefined, now).status, 'ok')
  const failing = judgeAcme(plan, good, trouble, now)
  assert.equal(failing.status, 'warn')
  assert.match(
    failing.text,
    /^for box.example and \*.box.example, until .*; 3 tries failed: no such record. Next try at /,
  )
  assert.match(failing.remedy ?? '', /WARREN_ACME_DNS by hand/)
  assert.equal(judgeAcme(plan, temporary, undefined, now).status, 'warn')
  for (const pair of [temporary, narrow]) assert.equal(judgeAcme(plan, pair, trouble, now).status, 'fail')
  assert.equal(judgeAcme(plan, good, trouble, now + 40 * dayMs).status, 'fail')
  const byHttp = judgeAcme({ ...plan, challenge: 'http-01' }, temporary, trouble, now)
  assert.match(byHttp.remedy ?? '', /port 80/)
})
