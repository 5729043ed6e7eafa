/**
 * Recognizes clients that are older than access tokens by the headers in which they name themselves. A client before 1.5
 * takes no token from an answer and sends none, but it repeats a sandbox's client ID in host names. Clients of the code
 * interpreter before 2.0 send the agent its token, and none when they run code; those that no longer know client IDs
 * repeat the sandbox's ID alone.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { AppError } from '../../../lib/app-error.ts'

type OlderClient = {
  /** Such as `e2b 1.2.1 for JavaScript`. */
  name: string
  /** It can use a sandbox without the token, but run no code in one. */
  runsCommands: boolean
  /** It repeats no client ID, so the sandbox's ID has to contain it. */
  needsLongID: boolean
}

type Release = { major: number; minor: number }

/** The first release that sends the agent its token, of both clients. */
const firstWithTokens: Release = { major: 1, minor: 5 }
/** The first `e2b` below a client of the code interpreter that sends the token with each execution. */
const firstWithTokensForCode: Release = { major: 2, minor: 0 }
const languages: Readonly<Record<string, { name: string; firstWithoutClientID: Release }>> = {
  js: { name: 'JavaScript', firstWithoutClientID: { major: 1, minor: 9 } },
  python: { name: 'Python', firstWithoutClientID: { major: 1, minor: 6 } },
}

/** Undefined if it is not known to be older. */
export function olderClient(
  { publisher, lang, package_version: version }: IncomingHttpHeaders,
  { templateID, secure }: { templateID: string; secure?: boolean | undefined },
): OlderClient | undefined {
  const language = languages[String(lang)]
  const [, major, minor] = /^(\d{1,9})\.(\d{1,9})(?:[.a-z-]|$)/.exec(String(version)) ?? []
  if (publisher !== 'e2b' || language === undefined || minor === undefined) return undefined
  const release = { major: Number(major), minor: Number(minor) }
  const isBefore = (first: Release) =>
    release.major < first.major || (release.major === first.major && release.minor < first.minor)
  const runsCommands = !isBefore(firstWithTokens)
  const isOlder = runsCommands
    ? isBefore(firstWithTokensForCode) && !secure && isForCode(templateID)
    : secure === undefined
  if (!isOlder) return undefined
  const name = `e2b ${major}.${minor} for ${language.name}`
  return { name, runsCommands, needsLongID: !isBefore(language.firstWithoutClientID) }
}

/** Clients of the code interpreter ask for `code-interpreter-v1` unless their caller names another template. */
const isForCode = (templateID: string): boolean => /(^|\/)code-interpreter/.test(templateID)

export const olderClientRejected = (client: string, teamSlug: string): AppError =>
  new AppError(
    'invalid_argument',
    `This client (${client}) is older than access tokens, without which nobody may use a sandbox. Update it to 1.5 or newer, or have the operator allow older clients: \`warren team older-clients ${teamSlug} yes\` for this team, WARREN_OLDER_CLIENTS=yes for all teams`,
  )
