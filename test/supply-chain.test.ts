/** What comes from elsewhere is pinned to the byte, runs nothing when it is installed, and no secret is handed out. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { countOf } from './support/count-of.ts'

const repoFolder = resolve(import.meta.dirname, '..')
const read = (name: string) => readFileSync(join(repoFolder, name), 'utf8')
const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, LockedPackage> }
type LockedPackage = { integrity?: string; resolved?: string; link?: boolean }

test('every locked package has a strong checksum, and no address that another machine may not reach', () => {
  const locked = Object.entries(packages).filter(([name]) => name !== '')
  assert.ok(locked.length > 100, 'this is no lock file')
  const weak = locked.filter(([, { integrity }]) => !/^sha512-[\w+/]{86}==$/.test(integrity ?? ''))
  const elsewhere = locked.filter(([, { resolved, link }]) => resolved !== undefined || link)
  assert.deepEqual([weak.map(([name]) => name), elsewhere.map(([name]) => name)], [[], []])
})

test('every version in package.json is exact', () => {
  const manifest = JSON.parse(read('package.json'))
  const wanted = ['dependencies', 'devDependencies', 'optionalDependencies'].flatMap((kind) =>
    Object.entries(manifest[kind] as Record<string, string>),
  )
  const exact = /^(npm:(@[\w.-]+\/)?[\w.-]+@)?\d+\.\d+\.\d+(-[\w.]+)?$/
  assert.ok(wanted.length > 10, 'package.json names no packages')
  assert.deepEqual(
    wanted.filter(([, version]) => !exact.test(version)),
    [],
  )
})

test('packages run no scripts when they are installed', () => {
  assert.match(read('.npmrc'), /^ignore-scripts=true$/m)
})

const secrets = {
  'a private key': /-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s*\n[\w+/=\n]{64}/,
  'an API key of E2B or Warren': /\b(?:sk_)?e2b_(?!(.)\1{39})[0-9a-f]{40}\b/,
  'a key of AWS': /\bA(?:KI|SI)A[0-9A-Z]{16}\b/,
  'a token of GitHub': /\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{60,})\b/,
  'a token of npm': /\bnpm_[A-Za-z0-9]{36}\b/,
  'a token of Slack': /\bxox[abprs]-[A-Za-z0-9-]{20,}/,
  'a key of Google': /\bAIza[\w-]{35}\b/,
  'a signed web token': /\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}/,
  'a password in an address':
    /\b(?:https?|postgres(?:ql)?):\/\/[\w.-]+:(?=[\w.-]*\d)[\w.-]{16,}@(?!127\.|localhost)/,
}

const secretsIn = (text: string) =>
  Object.entries(secrets).flatMap(([name, pattern]) => (pattern.test(text) ? [name] : []))

test('no tracked file contains a text that looks like a secret', (t) => {
  const listed = spawnSync('git', ['-C', repoFolder, 'ls-files', '-z'], { encoding: 'utf8' })
  if (listed.status !== 0)
    return t.diagnostic('Not a checkout: the files of a release are those of its commit.')
  const files = listed.stdout.split('\0').filter((name) => name !== '')
  assert.ok(files.includes('package.json'))
  const found = files.flatMap((name) => {
    try {
      return secretsIn(read(name)).map((what) => `${name} holds ${what}`)
    } catch (error) {
      // Removed in the work tree, and not yet in the index.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
  })
  assert.deepEqual(found, [])
})

test('a text that looks like a secret is found', () => {
  const random = '0123456789abcdef0123456789abcdef01234567'
  const samples = {
    'a private key': `-----BEGIN EC ${'PRIVATE'} KEY-----\n${'A'.repeat(64)}\n`,
    'an API key of E2B or Warren': `E2B_API_KEY=e2b_${random}`,
    'a key of AWS': `AKIA${'Q'.repeat(16)}`,
    'a token of GitHub': `ghp_${'x'.repeat(36)}`,
    'a token of npm': `npm_${'x'.repeat(36)}`,
    'a token of Slack': `xoxb-${'1'.repeat(24)}`,
    'a key of Google': `AIza${'x'.repeat(35)}`,
    'a signed web token': `eyJ${'x'.repeat(12)}.eyJ${'x'.repeat(12)}.${'x'.repeat(24)}`,
    'a password in an address': `postgres://warren:${random}@db.example/warren`,
  }
  for (const [name, text] of Object.entries(samples)) assert.deepEqual(secretsIn(text), [name])
  assert.deepEqual(secretsIn(`e2b_${'0'.repeat(40)} postgres://user:password@db.example`), [])
})

// In the long run alone: what somebody found since is no fault of the commit that is proved.
if (countOf({ short: 0, long: 1 }) > 0) {
  test('npm knows of no serious vulnerability in the installed packages', { timeout: 120_000 }, (t) => {
    const args = [
      'audit',
      '--omit=dev',
      '--audit-level=high',
      '--json',
      '--fetch-retries=0',
      '--fetch-timeout=20000',
    ]
    const { stdout } = spawnSync('npm', args, { cwd: repoFolder, encoding: 'utf8' })
    const audit = JSON.parse(stdout || '{}') as { metadata?: { vulnerabilities: Record<string, number> } }
    if (!audit.metadata) return t.diagnostic('The registry answers no audit here, so nothing is known.')
    const { high, critical } = audit.metadata.vulnerabilities
    assert.deepEqual([high, critical], [0, 0], stdout)
  })
}
