import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'

/** In hexadecimal. The file may be larger than the memory. */
export async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return hash.digest('hex')
}
