/** What the main thread and a worker that unpacks layers say to each other. */
import type { ErrorCode } from '../lib/app-error.ts'
import type { LayerFacts } from './layer-writer.ts'

export type UnpackJob = {
  /** The folder to write into; it exists and is empty. */
  folder: string
  /** The digest of the bytes as they are sent. */
  digest: string
  /** The digest of the archive that they unpack to. */
  diffID: string
  ownerShift: number
  maxEntries: number
  /** The most that the archive may take when it is decompressed. */
  maxBytes: number
}

export type ToWorker =
  | { type: 'unpack'; job: UnpackJob }
  | { type: 'chunk'; bytes: Uint8Array }
  | { type: 'end' }

export type FromWorker =
  /** Bytes that were sent and are used up; and what the archive holds so far. */
  | { type: 'consumed'; bytes: number; unpackedBytes: number; entries: number }
  | { type: 'done'; facts: LayerFacts }
  | { type: 'failed'; code: ErrorCode; message: string; cause: string }
