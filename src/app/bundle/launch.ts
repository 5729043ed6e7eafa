/** How Warren starts from its bundle. V8 keeps beside it what it compiled, for the next start. */
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

enableCompileCache(join(import.meta.dirname, 'compiled'))
await import('../main.ts')
