import { extname } from 'node:path'

/** The path of a module in the folder of the calling module: a source beside a source, or a bundled file beside another. */
export const siblingModule = (name: string, asker: string): URL =>
  new URL(`./${name}${extname(asker)}`, asker)
