/** The variables of the `warren` command, also where there is no server with its settings. */

/** True if failures are to be shown with their stacks. Works if the rest of the settings cannot be loaded. */
export function wantsStacks(env: Record<string, string | undefined> = process.env): boolean {
  return ['debug', 'trace'].includes(env.WARREN_LOG_LEVEL ?? '')
}

/** The variables that tell a client, including the `warren` command, which server and which key to use. */
export function clientVariables(env: Record<string, string | undefined> = process.env) {
  const { E2B_API_KEY: apiKey, E2B_API_URL: apiUrl, E2B_DOMAIN: domain } = env
  return { apiKey: apiKey || undefined, apiUrl: apiUrl || (domain ? `https://api.${domain}` : undefined) }
}
