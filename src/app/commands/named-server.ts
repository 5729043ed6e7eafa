/** The server and team that the client's variables name. */
import type { TeamAccess } from '../../cli/template-client.ts'
import { AppError } from '../../lib/app-error.ts'
import type { clientVariables } from '../config/client-variables.ts'

/** Undefined: they name no server. */
export function namedAccess({ apiKey, apiUrl }: ReturnType<typeof clientVariables>): TeamAccess | undefined {
  if (apiUrl === undefined) return undefined
  if (apiKey !== undefined) return { url: parsedUrl(apiUrl), apiKey }
  throw new AppError(
    'unauthenticated',
    `E2B_API_KEY is not set, but the server is chosen by E2B_API_URL or E2B_DOMAIN (${apiUrl}): set it too.`,
  )
}

function parsedUrl(text: string): string {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text
  throw new AppError('invalid_argument', `E2B_API_URL is '${text}', but must begin with http:// or https://.`)
}
