/** Starts Warren from its bundle. V8 stores its compiled code beside it, for the next start. */
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

enableCompileCache(join(import.meta.dirname, 'compiled'))
await import('../main.ts')
