/** The messages between the main thread and a worker that unpacks layers. */
import type { ErrorCode } from '../lib/app-error.ts'
import type { LayerFacts } from './layer-writer.ts'

export type UnpackJob = {
  /** The folder to write into; it exists and is empty. */
  folder: string
  /** The digest of the bytes as they are sent. */
  digest: string
  /** The digest of the decompressed archive. */
  diffID: string
  ownerShift: number
  maxEntries: number
  /** Maximum size of the decompressed archive. */
  maxBytes: number
}

export type ToWorker =
  | { type: 'unpack'; job: UnpackJob }
  | { type: 'chunk'; bytes: Uint8Array }
  | { type: 'end' }

export type FromWorker =
  /** Number of sent bytes that are consumed, and the size of the archive so far. */
  | { type: 'consumed'; bytes: number; unpackedBytes: number; entries: number }
  | { type: 'done'; facts: LayerFacts }
  | { type: 'failed'; code: ErrorCode; message: string; cause: string }
