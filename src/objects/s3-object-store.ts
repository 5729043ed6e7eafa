/**
 * The object store over an S3 API, by the AWS SDK, which finds the credentials: the usual AWS variables,
 * files, or the machine's own role. Knows keys and bytes, but not their meaning. The SDK takes time to load
 * and memory to hold: this file is imported only if there is an object store.
 */
import { addAbortSignal, Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  paginateListObjectsV2,
  S3Client,
  type S3ClientConfig,
} from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import type { ObjectEnd, ObjectEntry, ObjectKey, ObjectStore } from '../core/ports/object-store.ts'
import { AppError, errorText } from '../lib/app-error.ts'

export type S3Location = { bucket: string; prefix: string }

export type S3Options = S3Location & {
  /** Null: Amazon's own endpoint, or the one in the AWS variables. */
  endpoint: string | null
  region: string | null
  /** Undefined: the credentials that the SDK finds. */
  credentials?: { accessKeyId: string; secretAccessKey: string }
}

const partBytes = 8 * 1024 * 1024
const partsAtOnce = 4
const connectWithinMs = 5000
/** A request to a server that is silent for this long is retried or fails. */
const silenceMs = 30_000
/** For one range of an object, which has a few MiB. A server that sends a byte now and then is not silent. */
const readWithinMs = 120_000

/** `s3://bucket` or `s3://bucket/some/prefix`. */
export function parseS3Url(text: string): S3Location {
  const [, bucket, prefix = ''] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(text) ?? []
  if (bucket === undefined || !/^[\w./-]*$/.test(prefix)) {
    throw new AppError(
      'invalid_argument',
      `"${text}" does not name a bucket: write s3://bucket or s3://bucket/prefix.`,
    )
  }
  const parts = prefix.split('/').filter((part) => part !== '')
  return { bucket, prefix: parts.map((part) => `${part}/`).join('') }
}

/** How long clients should wait before they ask again for a stored object. */
const retryAfterSeconds = 5

export class S3ObjectStore implements ObjectStore {
  readonly #client: S3Client
  readonly #bucket: string
  readonly #prefix: string
  #hasBucket = false

  constructor(options: S3Options) {
    this.#client = new S3Client(clientConfig(options))
    this.#bucket = options.bucket
    this.#prefix = options.prefix
  }

  async putIfAbsent(
    key: ObjectKey,
    content: AsyncIterable<Uint8Array> | Uint8Array,
    signal?: AbortSignal,
  ): Promise<boolean> {
    signal?.throwIfAborted()
    const body = content instanceof Uint8Array ? content : Readable.from(content, { objectMode: false })
    const abort = new AbortController()
    const stop = () => abort.abort(signal?.reason)
    signal?.addEventListener('abort', stop, { once: true })
    const upload = new Upload({
      client: this.#client,
      params: { ...this.#at(key), Body: body, IfNoneMatch: '*' },
      partSize: partBytes,
      queueSize: partsAtOnce,
      abortController: abort,
    })
    try {
      await upload.done()
      return true
    } catch (error) {
      signal?.throwIfAborted()
      if (statusOf(error) === 412) return false
      throw problem(error)
    } finally {
      signal?.removeEventListener('abort', stop)
      if (body instanceof Readable) body.destroy()
    }
  }

  async size(key: ObjectKey, signal?: AbortSignal): Promise<number | undefined> {
    const command = new HeadObjectCommand(this.#at(key))
    try {
      const { ContentLength } = await this.#client.send(command, { ...(signal && { abortSignal: signal }) })
      return ContentLength ?? 0
    } catch (error) {
      signal?.throwIfAborted()
      return this.#absentAfter(error)
    }
  }

  async read(key: ObjectKey, start: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    try {
      const { bytes } = await this.#get(key, `bytes=${start}-${start + length - 1}`, length, signal)
      if (bytes.length === length) return bytes
      throw new Error(`it sent ${bytes.length} of ${length} bytes`)
    } catch (error) {
      signal?.throwIfAborted()
      if (isAbsent(error)) throw new AppError('not_found', `The object store has no ${key}.`)
      throw problem(error)
    }
  }

  async readEnd(key: ObjectKey, length: number, signal?: AbortSignal): Promise<ObjectEnd | undefined> {
    try {
      const { bytes, range } = await this.#get(key, `bytes=-${length}`, length, signal)
      // A server that answers with a whole object need not name its range.
      const size = range === undefined ? bytes.length : sizeIn(range)
      if (bytes.length === Math.min(size, length)) return { bytes, size }
      throw new Error(`it sent ${bytes.length} of the last ${length} of ${size} bytes`)
    } catch (error) {
      signal?.throwIfAborted()
      if (statusOf(error) === 416) return { bytes: new Uint8Array(), size: 0 }
      return this.#absentAfter(error)
    }
  }

  async #get(
    key: ObjectKey,
    range: string,
    max: number,
    signal: AbortSignal | undefined,
  ): Promise<{ bytes: Uint8Array; range: string | undefined }> {
    const command = new GetObjectCommand({ ...this.#at(key), Range: range })
    const late = AbortSignal.timeout(readWithinMs)
    const abortSignal = signal ? AbortSignal.any([signal, late]) : late
    const { Body, ContentRange } = await this.#client.send(command, { abortSignal })
    return { bytes: await readAll(Body as Readable, max, abortSignal), range: ContentRange }
  }

  /** Undefined if the error says that there is no such object; otherwise rejects. */
  async #absentAfter(error: unknown): Promise<undefined> {
    if (!isAbsent(error)) throw problem(error)
    await this.#requireBucket()
  }

  async remove(key: ObjectKey): Promise<void> {
    try {
      await this.#client.send(new DeleteObjectCommand(this.#at(key)))
    } catch (error) {
      if (!isAbsent(error)) throw problem(error)
    }
  }

  async *list(prefix: string): AsyncGenerator<ObjectEntry> {
    const input = { Bucket: this.#bucket, Prefix: this.#prefix + prefix }
    try {
      for await (const page of paginateListObjectsV2({ client: this.#client }, input)) {
        for (const { Key = '', Size = 0, LastModified } of page.Contents ?? []) {
          const key = Key.slice(this.#prefix.length)
          yield { key, bytes: Size, modifiedAt: LastModified?.getTime() ?? 0 }
        }
      }
    } catch (error) {
      throw problem(error)
    }
  }

  async removeUnfinished(before: number): Promise<void> {
    const input = { Bucket: this.#bucket, Prefix: this.#prefix }
    try {
      const { Uploads = [] } = await this.#client.send(new ListMultipartUploadsCommand(input))
      for (const { Key, UploadId, Initiated } of Uploads) {
        if ((Initiated?.getTime() ?? before) >= before) continue
        const upload = { Bucket: this.#bucket, Key, UploadId }
        await this.#client.send(new AbortMultipartUploadCommand(upload))
      }
    } catch (error) {
      throw problem(error)
    }
  }

  async close(): Promise<void> {
    this.#client.destroy()
  }

  /**
   * A request for an object does not distinguish a missing bucket, which is the operator's mistake, from a
   * missing object.
   */
  async #requireBucket(): Promise<void> {
    if (this.#hasBucket) return
    try {
      await this.#client.send(new HeadBucketCommand({ Bucket: this.#bucket }))
      this.#hasBucket = true
    } catch (error) {
      throw problem(error)
    }
  }

  #at(key: ObjectKey) {
    return { Bucket: this.#bucket, Key: this.#prefix + key }
  }
}

function clientConfig({ endpoint, region, credentials }: S3Options): S3ClientConfig {
  return {
    ...(credentials && { credentials }),
    ...(endpoint !== null && { endpoint, forcePathStyle: true }),
    // Most servers other than Amazon's ignore the region, but the SDK requires one.
    ...(region !== null ? { region } : endpoint !== null && { region: 'us-east-1' }),
    maxAttempts: 3,
    requestHandler: { connectionTimeout: connectWithinMs, socketTimeout: silenceMs },
  }
}

/** Whatever the server sends: at most so many bytes, and not after the signal. */
async function readAll(body: Readable, max: number, signal: AbortSignal): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of addAbortSignal(signal, body) as AsyncIterable<Uint8Array>) {
    length += chunk.length
    if (length > max) throw new Error(`it sent more than the ${max} bytes of the range`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}

function sizeIn(range: string): number {
  const [, size] = /^bytes \d+-\d+\/(\d+)$/.exec(range) ?? []
  if (size === undefined) throw new Error(`it sent the range "${range}"`)
  return Number(size)
}

const statusOf = (error: unknown): number | undefined =>
  (error as { $metadata?: { httpStatusCode?: number } }).$metadata?.httpStatusCode

const isAbsent = (error: unknown): boolean =>
  statusOf(error) === 404 && (error as Error).name !== 'NoSuchBucket'

function problem(error: unknown): AppError {
  if (error instanceof AppError) return error
  const status = statusOf(error)
  const said = `${(error as Error).name}: ${errorText(error)}`
  return new AppError(
    'unavailable',
    status === 401 || status === 403
      ? 'The object store rejects the credentials of this Warren. Check the AWS variables and what they may do.'
      : 'The object store does not answer as it should. Try again later; the log of the server has the cause.',
    {
      cause: new Error(`the object store: ${said}${status ? ` (${status})` : ''}`, { cause: error }),
      retry: { should: true, afterSeconds: retryAfterSeconds },
    },
  )
}
