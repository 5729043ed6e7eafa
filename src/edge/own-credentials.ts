/**
 * Finds Warren's own credentials in the headers of a client: keys, access tokens and sessions by their form, the tokens of the
 * sandbox by their value. A client that sends them with every request would reveal them to whatever runs in the sandbox. What
 * a service uses as its own key in the same headers is passed on.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { header } from '../contract/constants.ts'
import { isSessionTokenShaped } from '../core/sign-in/person-session.ts'
import { isAccessTokenShaped, isAdminTokenShaped, isApiKeyShaped } from '../core/team/team.ts'

/** `ownTokens`: tokens of the sandbox that this port must not learn. */
export function withoutOwnCredentials(headers: readonly string[], ownTokens: readonly string[]): string[] {
  return headers.filter((_, at) => {
    const pair = at - (at % 2)
    return !holdsCredential(headers[pair]!.toLowerCase(), headers[pair + 1]!, ownTokens)
  })
}

/** Every credential has one of these parts: most headers need no closer look. */
const perhaps = /e2b_[0-9a-f]{40}|[0-9a-f]{64}|^\s*basic\s/i
const separators = /[\s,;="]+/

function holdsCredential(name: string, value: string, ownTokens: readonly string[]): boolean {
  if (!perhaps.test(value)) return false
  const words = [...value.split(separators), ...basicWords(value)]
  if (name === header.adminToken && words.some(isAdminTokenShaped)) return true
  return words.some(
    (word) =>
      isApiKeyShaped(word) ||
      isAccessTokenShaped(word) ||
      isSessionTokenShaped(word) ||
      ownTokens.some((token) => isSame(word, token)),
  )
}

/** User and password of `Basic`. */
function basicWords(value: string): string[] {
  const [, encoded] = /^\s*basic\s+(\S+)/i.exec(value) ?? []
  return encoded === undefined ? [] : Buffer.from(encoded, 'base64').toString('latin1').split(/[:\s]/)
}

/** Hashes first, so that the time of the comparison reveals neither content nor length. */
const isSame = (given: string, token: string): boolean => timingSafeEqual(digest(given), digest(token))
const digest = (text: string) => createHash('sha256').update(text).digest()
