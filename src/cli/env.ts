/** The variables that an unmodified client needs to find this server, and what to paste to try it. */

import { shellQuote } from '../lib/dockerfile/words.ts'
import { asksForHelp, parseCommand, takeWords } from './arguments.ts'
import { asJson } from './output.ts'

export type ServerLocation = {
  url: string
  domain: string | null
  /** The certificate has no name of single sandboxes. */
  hasNoWildcard?: boolean
  apiKey: string
}

const command = 'warren env'
const usage = 'Usage:\n  warren env [--json]\n\nIn a shell: eval "$(bin/warren env)"'

export async function envCommand(
  args: readonly string[],
  find: () => Promise<ServerLocation>,
): Promise<string> {
  if (asksForHelp(args)) return usage
  const { words, json } = parseCommand(args, [], command)
  takeWords(words, [], command)
  const variables = clientEnvironment(await find())
  return json ? asJson(variables) : shellExports(variables)
}

/**
 * With TLS the domain says it all. A domain without TLS has a proxy in front that this machine need not be
 * able to reach, so the local URLs are given beside it.
 */
export function clientEnvironment({
  url,
  domain,
  hasNoWildcard,
  apiKey,
}: ServerLocation): Record<string, string> {
  if (domain !== null && hasNoWildcard)
    return { E2B_API_KEY: apiKey, ...addressed(`https://api.${domain}`, `https://sandbox.${domain}`) }
  const byDomain: Record<string, string> = domain === null ? {} : { E2B_DOMAIN: domain }
  if (domain !== null && url.startsWith('https:')) return { E2B_API_KEY: apiKey, ...byDomain }
  return { E2B_API_KEY: apiKey, ...addressed(url, url), ...byDomain }
}

const addressed = (url: string, sandboxUrl: string) => ({
  E2B_API_URL: url,
  E2B_SANDBOX_URL: sandboxUrl,
  E2B_VOLUME_API_URL: url,
})

export function shellExports(variables: Record<string, string>): string {
  return Object.entries(variables)
    .map(([name, value]) => `export ${name}=${shellQuote(value)}`)
    .join('\n')
}

/** The text that a start in a terminal prints when it serves; `program` is the path of `warren`. It fits on one screen. */
export function banner({ url, apiKey }: ServerLocation, isolation: string, program: string): string {
  return `
Warren serves at ${url} (${isolation}).

  API key     ${apiKey}
  Dashboard   ${url}/dashboard (log in with the key, or run ${program} quickstart)
  Docs        ${url}/docs

Paste this into another shell on this machine, as root:

  ${program} run -- python3 -c 'print("hello from a sandbox")'
  ${program} run -it
  eval "$(${program} env)"

The first line runs a command in a sandbox, the second opens a terminal in one, the third sets what E2B's clients need.
Ctrl-C stops Warren; sandboxes live on.
`
}

/** The line that a start prints elsewhere than in a terminal. It has no key, because others may read a journal or a file. */
export const serviceLine = ({ url }: ServerLocation, isolation: string): string =>
  `Warren serves at ${url} (${isolation}). \`bin/warren env\` prints the key; the dashboard is at ${url}/dashboard.\n`
