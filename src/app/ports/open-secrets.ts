import { SecretService } from '../../core/secret/service.ts'
import type { SecretVault } from '../../core/secret/vault.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import type { Stores } from '../../store/stores.ts'
import type { DataPaths } from '../data/data-folder.ts'

/**
 * Warren also serves with another key than before: secrets can get new values, and using an old one is an
 * error.
 */
export async function openSecrets(parts: {
  stores: Pick<Stores, 'secrets' | 'sandboxes'>
  vault: SecretVault
  paths: DataPaths
  clock: Clock
  log: Log
}): Promise<SecretService> {
  const { stores, vault, paths, clock, log } = parts
  const keyFile = paths.secretKey
  const service = new SecretService({ secrets: stores.secrets, vault, clock })
  const locked = await service.countLocked()
  if (locked > 0) {
    log.warn(
      { secrets: locked, keyFile },
      'secrets were sealed with another key: restore its file, or give the secrets new values',
    )
  }
  const closed = await stores.sandboxes.listLocked()
  if (closed.length > 0) {
    const sandboxIDs = closed.map(({ sandboxID }) => sandboxID)
    log.warn({ sandboxIDs, keyFile }, `nothing may leave ${closed.length} sandboxes: ${closed[0]!.why}`)
  }
  return service
}
