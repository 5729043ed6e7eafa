/** Archives that have the same bytes wherever and whenever they are made of the same files. */
import { createReadStream, createWriteStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress } from 'node:zlib'
import { runCommand } from '../../lib/run-command.ts'

/** Higher ones take minutes for a few percent. */
const zstdLevel = 6

/** Arguments of tar. Files that are newer than `newest` get its date: they were made by the build. */
export const sameTar = (newest: string): string[] => [
  '--sort=name',
  `--mtime=${newest}`,
  '--clamp-mtime',
  '--numeric-owner',
  '--format=posix',
  '--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime',
]

/** The date of the newest package in a Debian root, in seconds: all that is younger was made by the build. */
export async function newestPackageSeconds(root: string): Promise<number> {
  const find = [
    '/usr/share/doc',
    '-mindepth',
    '2',
    '-maxdepth',
    '2',
    '-name',
    'copyright',
    '-printf',
    '%T@\\n',
  ]
  const { stdout } = await runCommand('find', [`${root}${find[0]}`, ...find.slice(1)])
  return Math.max(
    ...stdout
      .trim()
      .split('\n')
      .map((line) => Math.floor(Number(line))),
  )
}

export async function compress(file: string, target: string): Promise<void> {
  const { size } = await stat(file)
  const params = { [constants.ZSTD_c_compressionLevel]: zstdLevel, [constants.ZSTD_c_checksumFlag]: 1 }
  await pipeline(
    createReadStream(file, { highWaterMark: 1024 * 1024 }),
    createZstdCompress({ params, pledgedSrcSize: size }),
    createWriteStream(target),
  )
}
