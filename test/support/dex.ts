/** `dex`, a real provider of OpenID Connect, built from its Go module and started on loopback. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findGo } from '../../src/app/setup/go-toolchain.ts'
import { eventually } from './eventually.ts'
import type { ProviderOptions } from './provider-options.ts'

const run = promisify(execFile)
const version = 'v0.0.0-20260806151424-ab64ed778070'
const cache = join(import.meta.dirname, '../../.cache/dex')

/** Builds it once, which takes minutes. Its gRPC API needs a module that the proxy does not have, and is left out. */
export async function buildDex(): Promise<string> {
  const path = join(cache, version)
  if (existsSync(path)) return path
  const go = await findGo()
  if (!go) throw new Error('Go is missing: this builds dex.')
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '-mod=mod', ...go.environment }
  const { stdout } = await run(go.program, ['mod', 'download', '-json', `github.com/dexidp/dex@${version}`], {
    env,
  })
  const making = join(cache, `making-${process.pid}`)
  mkdirSync(cache, { recursive: true })
  cpSync((JSON.parse(stdout) as { Dir: string }).Dir, making, { recursive: true })
  await run('chmod', ['-R', 'u+w', making])
  rmSync(join(making, 'server/apiserver'), { recursive: true })
  const serve = join(making, 'cmd/dex/serve.go')
  const without = readFileSync(serve, 'utf8')
    .replace(/^\t"github.com\/dexidp\/dex\/(?:api\/v2|server\/apiserver)"\n/gm, '')
    .replace(/^\t\tapi\.RegisterDexServer\(.*$/m, '\t\t_ = serv')
  writeFileSync(serve, without)
  const options = { cwd: making, env, maxBuffer: 16 * 1024 ** 2 }
  await run(go.program, ['mod', 'edit', '-dropreplace', 'github.com/dexidp/dex/api/v2'], options)
  await run(go.program, ['build', '-o', join(making, 'dex'), './cmd/dex'], options)
  renameSync(join(making, 'dex'), path)
  rmSync(making, { recursive: true, force: true })
  return path
}

/** The password of everybody, and what dex stores of it. */
const password = 'password'
const passwordHash = '$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W'

export async function startDex(program: string, { port, client, callbackURL, people }: ProviderOptions) {
  const folder = mkdtempSync(join(tmpdir(), 'dex-'))
  const issuer = dexIssuer(port)
  const config = {
    issuer,
    storage: { type: 'memory' },
    web: { http: `127.0.0.1:${port}` },
    oauth2: { skipApprovalScreen: true },
    staticClients: [{ ...client, name: 'Warren', redirectURIs: [callbackURL] }],
    enablePasswordDB: true,
    staticPasswords: people.map(({ email, name, groups }, at) => ({
      email,
      name,
      groups,
      hash: passwordHash,
      username: name,
      userID: `user-${at}`,
    })),
  }
  writeFileSync(join(folder, 'config.yaml'), JSON.stringify(config))
  const child = spawn(program, ['serve', join(folder, 'config.yaml')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let log = ''
  child.stderr.on('data', (part: Buffer) => {
    log = (log + part).slice(-5000)
  })
  const stop = async () => {
    if (child.exitCode === null && child.kill()) await once(child, 'exit')
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await eventually(async () => {
      if (child.exitCode !== null) return
      assert.ok((await fetch(`${issuer}/healthz`)).ok)
    })
    if (child.exitCode !== null) throw new Error('It ended.')
  } catch (error) {
    await stop()
    throw new Error(`dex does not answer: ${log}`, { cause: error })
  }
  return { stop }
}

export const dexIssuer = (port: number): string => `http://127.0.0.1:${port}/dex`

/** What a person does on the pages of dex. Returns where dex sends the browser in the end. */
export async function signInAtDex(loginURL: string, email: string): Promise<string> {
  const form = await follow(loginURL, (url) => url.pathname.endsWith('/login'))
  const action = /<form[^>]*action="([^"]+)"/.exec(await (await fetch(form)).text())?.[1] ?? form
  const body = new URLSearchParams({ login: email, password })
  const target = new URL(action.replaceAll('&amp;', '&'), form)
  const answer = await fetch(target, { method: 'POST', body, redirect: 'manual' })
  const next = answer.headers.get('location')
  if (next === null) throw new Error(`dex answered ${answer.status}: ${(await answer.text()).slice(0, 2000)}`)
  const { origin } = new URL(loginURL)
  return follow(new URL(next, form).href, (url) => url.origin !== origin)
}

async function follow(from: string, isEnd: (url: URL) => boolean): Promise<string> {
  let url = from
  for (let hops = 0; hops < 10; hops++) {
    if (isEnd(new URL(url))) return url
    const answer = await fetch(url, { redirect: 'manual' })
    const next = answer.headers.get('location')
    if (next === null)
      throw new Error(`${url} answered ${answer.status}: ${(await answer.text()).slice(0, 2000)}`)
    url = new URL(next, url).href
  }
  throw new Error(`dex redirects without end from ${from}`)
}
