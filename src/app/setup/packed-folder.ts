/** A folder as one tar file, with owners, modes, hard links and extended attributes as they are. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdir, rename, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createZstdDecompress } from 'node:zlib'
import { AppError } from '../../lib/app-error.ts'
import { runCommand } from '../../lib/run-command.ts'
import { type Advance, eachLine } from './progress.ts'

const exact = ['--numeric-owner', '--xattrs', '--xattrs-include=*']

/** Complete or not there at all: written beside its place, then renamed. */
export async function packFolder(folder: string, file: string, advance: Advance): Promise<void> {
  await mkdir(dirname(file), { recursive: true })
  const partial = `${file}.${process.pid}.partial`
  const { stdout } = await runCommand('du', ['-s', '--block-size=10M', folder])
  // tar tells its place after every 1024 records of 10 KiB.
  const expected = Number.parseInt(stdout, 10) || 1
  let marks = 0
  const onLine = () => advance(Math.min(0.99, ++marks / expected))
  try {
    const args = [
      ...exact,
      '--checkpoint=1024',
      '--checkpoint-action=echo=#%u',
      '-cf',
      partial,
      '-C',
      folder,
      '.',
    ]
    await runCommand('tar', args, { onOutput: eachLine(onLine) })
    await rename(partial, file)
  } finally {
    await rm(partial, { force: true })
  }
}

/** A file whose name ends with `.zst` is compressed. */
export async function unpackFolder(file: string, folder: string, advance: Advance): Promise<void> {
  const { size } = await stat(file)
  let read = 0
  const source = createReadStream(file, { highWaterMark: 1024 * 1024 })
  source.on('data', (chunk) => {
    read += chunk.length
    advance(read / size)
  })
  const tar = spawn('tar', [...exact, '--same-owner', '-xpf', '-', '-C', folder], {
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  let said = ''
  tar.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString()
  })
  const ended = once(tar, 'close')
  const unread = await pipeline(
    file.endsWith('.zst') ? [source, createZstdDecompress(), tar.stdin] : [source, tar.stdin],
  ).then(
    () => false,
    // tar may end before it has seen the end of the pipe, since the archive itself says where it ends.
    ({ code }) => code !== 'EPIPE' && code !== 'ERR_STREAM_PREMATURE_CLOSE',
  )
  const [exitCode] = (await ended) as [number | null]
  if (exitCode !== 0 || unread) {
    throw new AppError('internal', `Could not unpack ${file}: ${said.trim() || `tar ended with ${exitCode}`}`)
  }
}
