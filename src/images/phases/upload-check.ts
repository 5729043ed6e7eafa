/**
 * Reads an uploaded archive while it is stored, and counts its unpacked size. The archive is unpacked only
 * later, in the sandbox of a build; this stops a few megabytes that become gigabytes, or millions of names.
 * Runs in a worker thread: `upload-check-worker.ts` feeds it.
 */
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { AppError } from '../../lib/app-error.ts'
import type { TarEntry } from '../../lib/tar/tar-header.ts'
import { type TarHandler, TarReader } from '../../lib/tar/tar-reader.ts'
import { decompress } from '../decompress.ts'
import { longestPath } from '../layer-tree.ts'

export type UploadBounds = { maxBytes: number; maxEntries: number }

/** Called with the number of unpacked bytes; unpacking continues when it has resolved. */
type OnUnpacked = (bytes: number) => Promise<void> | void

/**
 * The unpacked size that is always allowed, besides `maxTimes` the upload's size. Archives of text and
 * programs unpack to 3 to 30 times their size, gzip can reach 1,000 times, and zstd more.
 */
const unpackedAnyway = 128 * 2 ** 20
const maxTimes = 250

export class UploadCheck {
  readonly #input = new PassThrough()
  readonly #bounds: UploadBounds
  readonly #onUnpacked: OnUnpacked
  readonly #done: Promise<void>
  #packedBytes = 0
  #isClosed = false
  #failure: unknown

  constructor(bounds: UploadBounds, onUnpacked: OnUnpacked = () => {}) {
    this.#bounds = bounds
    this.#onUnpacked = onUnpacked
    // A reader that stops early destroys its input with its own error; the reason is in `#failure`.
    this.#input.on('error', () => {})
    this.#done = this.#read().catch((error) => {
      this.#failure = rejectionOf(error)
      this.#input.destroy()
    })
  }

  /** Rejects as soon as a limit is exceeded. */
  async add(chunk: Uint8Array): Promise<void> {
    if (this.#failure) throw this.#failure
    this.#packedBytes += chunk.length
    if (!this.#input.write(chunk)) await this.#drained()
    if (this.#failure) throw this.#failure
  }

  async finish(): Promise<void> {
    this.#input.end()
    await this.#done
    if (this.#failure) throw this.#failure
  }

  /** Aborts an upload that broke off. */
  close(): void {
    this.#isClosed = true
    this.#input.destroy()
  }

  /** Resolves when more can be written, or when nobody reads any more. */
  async #drained(): Promise<void> {
    await Promise.race([once(this.#input, 'drain'), this.#done]).catch(() => this.#done)
  }

  async #read(): Promise<void> {
    const { maxBytes } = this.#bounds
    const reader = new TarReader(new EntryCount(this.#bounds.maxEntries))
    let bytes = 0
    const use = async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) {
        bytes += chunk.length
        if (bytes > maxBytes) throw tooLarge(maxBytes)
        if (bytes > unpackedAnyway + maxTimes * this.#packedBytes) throw tooDense()
        reader.push(chunk)
        await this.#onUnpacked(chunk.length)
        // Data that was sent before may unpack to a lot, and is not in the input any more.
        if (this.#isClosed) throw new AppError('unavailable', 'The upload broke off: send it again')
      }
    }
    await decompress(this.#input[Symbol.asyncIterator]() as AsyncGenerator<Buffer>, use)
    reader.finish()
  }
}

class EntryCount implements TarHandler {
  readonly #max: number
  #entries = 0

  constructor(max: number) {
    this.#max = max
  }

  entry({ path }: TarEntry): void {
    if (++this.#entries > this.#max) {
      throw new AppError('payload_too_large', `The files of a COPY may be ${this.#max} at most.`)
    }
    if (path.length > longestPath) {
      throw new AppError(
        'payload_too_large',
        `A path in the files of a COPY is longer than ${longestPath} bytes.`,
      )
    }
  }

  data(): void {}
  fileEnd(): void {}
}

export function tooLarge(maxBytes: number): AppError {
  const max = Math.floor(maxBytes / 2 ** 20)
  return new AppError(
    'payload_too_large',
    `The files of a COPY may take ${max} MiB at most, packed and unpacked. An operator can raise WARREN_MAX_UPLOAD_MB.`,
  )
}

function tooDense(): AppError {
  return new AppError(
    'payload_too_large',
    `The files of a COPY unpack to more than ${maxTimes} times what was sent, and to more than ${unpackedAnyway / 2 ** 20} MiB. ` +
      'Make files that are mostly empty in a RUN instead.',
  )
}

function rejectionOf(error: unknown): AppError {
  if (error instanceof AppError && error.code === 'payload_too_large') return error
  const message =
    'The files of a COPY must come as a tar archive, plain or compressed with gzip. This upload is not one.'
  return new AppError('invalid_argument', message, { cause: error })
}
