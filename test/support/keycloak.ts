/** Keycloak, a real provider of OpenID Connect, from the repository that Maven knows, started on loopback. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { eventually } from './eventually.ts'
import type { ProviderOptions } from './provider-options.ts'

const run = promisify(execFile)
const version = '26.4.7'
const cache = join(import.meta.dirname, '../../.cache/keycloak')
const password = 'password'

/** Downloads it once; 160 MB. Returns its folder. */
export async function fetchKeycloak(): Promise<string> {
  const folder = join(cache, `keycloak-${version}`)
  if (existsSync(folder)) return folder
  const making = join(cache, `making-${process.pid}`)
  mkdirSync(making, { recursive: true })
  const artifact = `org.keycloak:keycloak-quarkus-dist:${version}:zip`
  await run('mvn', ['-q', '-B', 'dependency:copy', `-Dartifact=${artifact}`, `-DoutputDirectory=${making}`])
  await run('python3', ['-m', 'zipfile', '-e', join(making, `keycloak-quarkus-dist-${version}.zip`), making])
  renameSync(join(making, `keycloak-${version}`), folder)
  rmSync(making, { recursive: true, force: true })
  return folder
}

/** Each start has a database of its own, and so other keys than the one before. */
export async function startKeycloak(program: string, options: ProviderOptions) {
  const { port, client, callbackURL, people } = options
  const home = mkdtempSync(join(tmpdir(), 'keycloak-'))
  await run('cp', ['-a', `${program}/.`, home])
  const groups = [...new Set(people.flatMap((person) => person.groups))]
  const realm = {
    realm: 'warren',
    enabled: true,
    sslRequired: 'none',
    groups: groups.map((name) => ({ name })),
    clients: [
      {
        clientId: client.id,
        secret: client.secret,
        redirectUris: [callbackURL],
        standardFlowEnabled: true,
        protocolMappers: [
          {
            name: 'groups',
            protocol: 'openid-connect',
            protocolMapper: 'oidc-group-membership-mapper',
            config: { 'claim.name': 'groups', 'full.path': 'false', 'id.token.claim': 'true' },
          },
        ],
      },
    ],
    users: people.map(({ email, name, groups }, at) => ({
      id: `00000000-0000-4000-8000-00000000000${at}`,
      username: email,
      email,
      emailVerified: true,
      enabled: true,
      firstName: name,
      lastName: 'Example',
      groups: groups.map((group) => `/${group}`),
      credentials: [{ type: 'password', value: password }],
    })),
  }
  mkdirSync(join(home, 'data/import'), { recursive: true })
  writeFileSync(join(home, 'data/import/warren.json'), JSON.stringify(realm))
  const words = ['start-dev', '--import-realm', '--http-host=127.0.0.1', `--http-port=${port}`]
  const child = spawn('bash', [join(home, 'bin/kc.sh'), ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let log = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (part: Buffer) => {
      log = (log + part).slice(-5000)
    })
  const issuer = keycloakIssuer(port)
  const stop = async () => {
    if (child.exitCode === null) {
      process.kill(-child.pid!, 'SIGKILL')
      await once(child, 'exit')
    }
    rmSync(home, { recursive: true, force: true })
  }
  try {
    await eventually(async () => {
      if (child.exitCode !== null) return
      assert.ok((await fetch(`${issuer}/.well-known/openid-configuration`)).ok)
    })
    if (child.exitCode !== null) throw new Error('It ended.')
  } catch (error) {
    await stop()
    throw new Error(`Keycloak does not answer: ${log}`, { cause: error })
  }
  return { stop }
}

export const keycloakIssuer = (port: number): string => `http://127.0.0.1:${port}/realms/warren`

/** What a person does on the page of Keycloak. Returns where it sends the browser. */
export async function signInAtKeycloak(loginURL: string, email: string): Promise<string> {
  const page = await fetch(loginURL, { redirect: 'manual' })
  const text = await page.text()
  const action = /<form[^>]*action="([^"]+)"/.exec(text)?.[1]
  if (action === undefined) throw new Error(`Keycloak answered ${page.status}: ${text.slice(0, 2000)}`)
  const cookie = page.headers
    .getSetCookie()
    .map((one) => one.split(';', 1)[0])
    .join('; ')
  const answer = await fetch(action.replaceAll('&amp;', '&'), {
    method: 'POST',
    headers: { cookie },
    body: new URLSearchParams({ username: email, password }),
    redirect: 'manual',
  })
  const next = answer.headers.get('location')
  if (next === null)
    throw new Error(`Keycloak answered ${answer.status}: ${(await answer.text()).slice(0, 2000)}`)
  return next
}
