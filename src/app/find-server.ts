/** Finds the server that runs on the data folder, for the commands that speak to it. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { ServerAccess } from '../cli/admin-client.ts'
import type { ServerPlace } from '../cli/env.ts'
import { AppError } from '../lib/app-error.ts'
import type { Config } from './config.ts'
import { dataPaths, loadSecrets, readCredentials, readServerFile } from './data-folder.ts'

export async function findServer(
  config: Pick<Config, 'dataDir'>,
): Promise<{ place: ServerPlace; access: ServerAccess }> {
  const paths = dataPaths(config.dataDir)
  const server = await readServerFile(paths)
  // The file outlives a server that was killed; its process does not.
  if (!server || !existsSync(`/proc/${server.pid}`)) {
    throw new AppError(
      'unavailable',
      `No Warren is running on ${config.dataDir}. Start it with \`npm start\`; if it runs on another data folder, set WARREN_DATA_DIR.`,
    )
  }
  const { url, domain } = server
  const credentials = await readCredentials(paths)
  const { adminToken } = await loadSecrets(paths)
  const certificate = server.tlsCert === null ? {} : { certificate: await readFile(server.tlsCert, 'utf8') }
  return {
    place: { url, domain, apiKey: credentials?.apiKey ?? '' },
    access: { url, adminToken, ...certificate },
  }
}
