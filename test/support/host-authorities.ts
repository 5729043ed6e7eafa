/** What this machine trusts besides the usual roots, where Debian's tools keep it: sandboxes that install need it too. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from './warren.ts'

const folder = '/usr/local/share/ca-certificates'

/** Settings for a Warren whose sandboxes trust what the machine does; none where there is nothing to add. */
export function trustSettings(): Record<string, string> {
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.crt')) : []
  if (names.length === 0) return {}
  const file = join(cacheFolder, 'host-authorities.pem')
  writeFileSync(file, names.map((name) => readFileSync(join(folder, name), 'utf8')).join('\n'))
  return { WARREN_EXTRA_CA: file }
}
