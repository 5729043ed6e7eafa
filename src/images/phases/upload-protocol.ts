/** The messages between the main thread and the worker that checks uploads. `id` identifies one upload. */
import type { ErrorCode } from '../../lib/app-error.ts'
import type { UploadBounds } from './upload-check.ts'

export type ToChecker =
  | { type: 'open'; id: number; teamID: string; path: string; bounds: UploadBounds }
  /** The file has `size` bytes now. */
  | { type: 'grown'; id: number; size: number }
  | { type: 'end'; id: number }
  /** The caller no longer waits for the answer. */
  | { type: 'close'; id: number }

export type FromChecker =
  | { type: 'done'; id: number }
  | { type: 'failed'; id: number; code: ErrorCode; message: string }
