import { open } from 'node:fs/promises'
import { ifThere } from './if-there.ts'

const chunkBytes = 64 * 1024
const newline = 0x0a

/** Yields the lines of a file from the last to the first, read in pieces. A missing file has no lines. */
export async function* linesBackward(path: string): AsyncGenerator<string> {
  const file = await ifThere(open(path))
  if (!file) return
  try {
    let end = (await file.stat()).size
    let rest: Buffer = Buffer.alloc(0)
    while (end > 0) {
      const start = Math.max(0, end - chunkBytes)
      const { buffer, bytesRead } = await file.read(Buffer.alloc(end - start), 0, end - start, start)
      let data = Buffer.concat([buffer.subarray(0, bytesRead), rest])
      end = start
      for (let at = data.lastIndexOf(newline); at >= 0; at = data.lastIndexOf(newline)) {
        if (at + 1 < data.length) yield data.toString('utf8', at + 1)
        data = data.subarray(0, at)
      }
      rest = data
    }
    if (rest.length > 0) yield rest.toString('utf8')
  } finally {
    await file.close()
  }
}
