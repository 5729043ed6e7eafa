/** What the main thread and a worker that unpacks layers say to each other. */
import type { ErrorCode } from '../lib/app-error.ts'
import type { LayerFacts } from './layer-writer.ts'

export type UnpackJob = {
  /** Exists and is empty. */
  folder: string
  /** Of the bytes as they are sent, and of the archive in them. */
  digest: string
  diffID: string
  ownerShift: number
  maxEntries: number
  /** Of the archive. */
  maxBytes: number
}

export type ToWorker =
  | { type: 'unpack'; job: UnpackJob }
  | { type: 'chunk'; bytes: Uint8Array }
  | { type: 'end' }

export type FromWorker =
  /** Bytes that were sent and are used up; and how large the archive is so far. */
  | { type: 'consumed'; bytes: number; unpackedBytes: number }
  | { type: 'done'; facts: LayerFacts }
  | { type: 'failed'; code: ErrorCode; message: string; cause: string }
