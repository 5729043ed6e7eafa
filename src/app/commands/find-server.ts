/** Finds the server of the data folder, for the commands that call it. */
import { readFile } from 'node:fs/promises'
import type { ServerAccess } from '../../cli/admin-client.ts'
import type { ServerLocation } from '../../cli/env.ts'
import type { TeamAccess } from '../../cli/template-client.ts'
import { AppError } from '../../lib/app-error.ts'
import { processStart } from '../../lib/process-start.ts'
import type { clientVariables } from '../config/client-variables.ts'
import type { Config } from '../config/config.ts'
import { dataPaths, loadSecrets, readCredentials, readServerFile } from '../data/data-folder.ts'
import { namedAccess } from './named-server.ts'

export async function findServer(
  config: Pick<Config, 'dataDir' | 'secretsDir'>,
): Promise<{ location: ServerLocation; access: ServerAccess }> {
  const paths = dataPaths(config.dataDir, config.secretsDir ?? undefined)
  const server = await readServerFile(paths)
  // The file outlives a killed server; its process does not.
  if (!server || processStart(server.pid) === undefined) {
    throw new AppError(
      'unavailable',
      `No Warren is running on ${config.dataDir}. Start it with \`npm start\`; if it runs on another data folder, set WARREN_DATA_DIR.`,
    )
  }
  const { url, domain, hasNoWildcard } = server
  const credentials = await readCredentials(paths)
  const { adminToken } = await loadSecrets(paths)
  const certificate = server.tlsCert === null ? {} : { certificate: await readFile(server.tlsCert, 'utf8') }
  return {
    location: { url, domain, ...(hasNoWildcard && { hasNoWildcard }), apiKey: credentials?.apiKey ?? '' },
    access: { url, adminToken, ...certificate },
  }
}

/**
 * The server and team that the client's variables name; otherwise this machine's server and its first team.
 */
export async function findTeamAccess(
  config: Pick<Config, 'dataDir' | 'secretsDir'>,
  { apiKey, apiUrl }: ReturnType<typeof clientVariables>,
): Promise<TeamAccess> {
  const named = namedAccess({ apiKey, apiUrl })
  if (named) return named
  const { location, access } = await findServer(config)
  const { url, certificate } = access
  return { url, apiKey: apiKey ?? location.apiKey, ...(certificate !== undefined && { certificate }) }
}
