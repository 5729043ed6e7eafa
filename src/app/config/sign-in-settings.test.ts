import assert from 'node:assert/strict'
import { it } from 'node:test'
import { loadConfig, showSettings } from './config.ts'
import { publicOrigin } from './sign-in-settings.ts'

const given = {
  WARREN_OIDC_ISSUER: 'https://id.example.com',
  WARREN_OIDC_CLIENT_ID: 'warren',
  WARREN_OIDC_CLIENT_SECRET: 'quiet:secret@x',
}

it('the secret of the client is shown nowhere', () => {
  const shown = showSettings(given).find(({ name }) => name === 'WARREN_OIDC_CLIENT_SECRET')
  assert.equal(shown?.value, '***')
  const broken = { ...given, WARREN_OIDC_CLIENT_SECRET: 'quiet\nsecret' }
  assert.throws(
    () => loadConfig(broken),
    (error: Error) => !error.message.includes('quiet'),
  )
})

it('settings of the sign-in that do not belong together stop the start', () => {
  const wrong: [Record<string, string>, RegExp][] = [
    [{ WARREN_OIDC_CLIENT_ID: 'warren' }, /need WARREN_OIDC_ISSUER/],
    [{ WARREN_OIDC_GROUPS: 'a=b:owner' }, /need WARREN_OIDC_ISSUER/],
    [{ WARREN_OIDC_ISSUER: 'https://id.example.com' }, /needs WARREN_OIDC_CLIENT_ID/],
    [{ ...given, WARREN_OIDC_ISSUER: 'http://id.example.com' }, /must begin with https/],
    [{ ...given, WARREN_PUBLIC_URL: 'http://warren.example.com' }, /must begin with https/],
    [{ ...given, WARREN_PUBLIC_URL: 'https://warren.example.com/x' }, /URL without a path/],
    [{ ...given, WARREN_OIDC_SCOPES: 'email' }, /must contain openid/],
    [{ ...given, WARREN_OIDC_GROUPS: 'devs' }, /GROUP=TEAM:ROLE/],
    [{ ...given, WARREN_OIDC_DOMAINS: '@example.com' }, /domains separated by commas/],
  ]
  for (const [env, message] of wrong) assert.throws(() => loadConfig(env), message)
})

it('people come back to the public URL, the domain, or this machine', () => {
  const origin = (env: Record<string, string>) => publicOrigin(loadConfig({ ...given, ...env }))
  assert.equal(origin({}), 'http://localhost:3000')
  assert.equal(origin({ WARREN_DOMAIN: 'sandboxes.example.com' }), 'https://api.sandboxes.example.com')
  assert.equal(origin({ WARREN_PUBLIC_URL: 'https://warren.example.com/' }), 'https://warren.example.com')
})
