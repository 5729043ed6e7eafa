import { extname } from 'node:path'

/** A module in the folder of the one that asks: a source beside a source, or a file of the bundle beside another of it. */
export const siblingModule = (name: string, asker: string): URL =>
  new URL(`./${name}${extname(asker)}`, asker)
