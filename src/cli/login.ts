/** `warren login`: a person signs in with a browser, and the shell gets a key of theirs. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { UsageError } from './arguments.ts'
import { clientEnvironment, shellExports } from './env.ts'
import { callServer } from './http-call.ts'
import { asJson } from './output.ts'
import type { Given, SingleCommand } from './verbs.ts'

type LoginParts = {
  clock: Clock
  /** Prints beside the output, which a shell may evaluate. */
  say: (line: string) => void
}

const command = 'warren login'
const waitMs = 10 * 60_000

export const loginCommand: SingleCommand<LoginParts> = {
  name: 'login',
  does: 'sign in with a browser, and get the variables with a key of yours',
  verb: {
    does: 'Prints an address to open, and then the variables with a key of yours.',
    about:
      'In a shell: eval "$(warren login https://api.DOMAIN)"\n\nThe key has your role in the team, and ends when you leave it. `warren key revoke` ends it before.',
    words: ['URL'],
    run: login,
  },
}

async function login({ words: [word], json }: Given, { clock, say }: LoginParts): Promise<string> {
  const url = serverUrl(word!)
  const { accessToken, email } = await receiveToken(url, clock, say)
  type OwnTeams = { name: string; apiKey: string }[]
  const headers = { authorization: `Bearer ${accessToken}` }
  const [team] = await callServer<OwnTeams>({ url }, { method: 'GET', target: '/teams', headers })
  if (!team) throw new AppError('not_found', 'The server named no team for this sign-in.')
  say(`Signed in as ${email}, in the team ${team.name}.`)
  const domain = /^https:\/\/api\.([^/]+)\/?$/.exec(url)?.[1] ?? null
  const variables = clientEnvironment({ url, domain, apiKey: team.apiKey })
  return json ? asJson(variables) : shellExports(variables)
}

function serverUrl(text: string): string {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return new URL(text).origin
  throw new UsageError(
    `'${text}' is no address of a server: give one such as https://api.example.com.`,
    command,
  )
}

/** The page of the server sends the browser here. */
async function receiveToken(
  url: string,
  clock: Clock,
  say: (line: string) => void,
): Promise<{ accessToken: string; email: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ accessToken: string; email: string }>()
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '/', 'http://localhost')
    const accessToken = searchParams.get('accessToken')
    if (accessToken === null) return response.writeHead(404).end()
    const outcome = new URL('/api/cli?state=success', url).href
    response.writeHead(303, { location: outcome, connection: 'close' }).end()
    resolve({ accessToken, email: searchParams.get('email') ?? 'an unnamed person' })
  })
  server.on('error', reject)
  const stop = clock.after(waitMs, () =>
    reject(new AppError('deadline_exceeded', 'Nobody signed in for ten minutes. Run the command again.')),
  )
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo
    const next = new URLSearchParams({ next: `http://localhost:${port}` })
    say(`Open this address in a browser on this computer:\n\n  ${url}/api/cli?${next}\n`)
  })
  try {
    return await promise
  } finally {
    stop()
    server.close()
  }
}
