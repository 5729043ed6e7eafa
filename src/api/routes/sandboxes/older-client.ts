/**
 * Recognizes clients that are older than access tokens by the headers in which they name themselves. Such a
 * client takes no token from an answer and sends none, but it repeats a sandbox's client ID in host names.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { AppError } from '../../../lib/app-error.ts'

/** The first release that sends access tokens, of both clients. */
const firstWithTokens = { major: 1, minor: 5 }
const languages: Readonly<Record<string, string>> = { js: 'JavaScript', python: 'Python' }

/** The name of the client, such as `e2b 1.2.1 for JavaScript`; undefined if it is not known to be older. */
export function olderClient({
  publisher,
  lang,
  package_version: version,
}: IncomingHttpHeaders): string | undefined {
  const language = languages[String(lang)]
  const [, major, minor] = /^(\d{1,9})\.(\d{1,9})(?:[.a-z-]|$)/.exec(String(version)) ?? []
  if (publisher !== 'e2b' || language === undefined || minor === undefined) return undefined
  const isOlder =
    Number(major) < firstWithTokens.major ||
    (Number(major) === firstWithTokens.major && Number(minor) < firstWithTokens.minor)
  return isOlder ? `e2b ${major}.${minor} for ${language}` : undefined
}

export const olderClientRejected = (client: string, teamSlug: string): AppError =>
  new AppError(
    'invalid_argument',
    `This client (${client}) is older than access tokens, without which nobody may use a sandbox. Update it to 1.5 or newer, or have the operator allow older clients: \`warren team older-clients ${teamSlug} yes\` for this team, WARREN_OLDER_CLIENTS=yes for all teams`,
  )
