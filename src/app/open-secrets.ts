import { SecretService } from '../core/secret/service.ts'
import { SecretVault } from '../core/secret/vault.ts'
import type { SecretStore } from '../core/stores.ts'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import { type DataPaths, loadSecretKey } from './data-folder.ts'

/** With another key than before Warren serves on: new values can be given, and what needs an old one says so. */
export async function openSecrets(parts: {
  secrets: SecretStore
  paths: DataPaths
  clock: Clock
  log: Log
}): Promise<SecretService> {
  const { secrets, paths, clock, log } = parts
  const service = new SecretService({ secrets, vault: new SecretVault(await loadSecretKey(paths)), clock })
  const locked = await service.countLocked()
  if (locked > 0) {
    log.warn(
      { secrets: locked, keyFile: paths.secretKey },
      'secrets were sealed with another key: put its file back, or give them new values',
    )
  }
  return service
}
