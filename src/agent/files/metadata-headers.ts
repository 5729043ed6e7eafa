import type { IncomingHttpHeaders } from 'node:http'
import { AppError } from '../../lib/app-error.ts'
import type { FileMetadata } from '../filesystem/metadata.ts'

const prefix = 'x-metadata-'
/** What is left of the name of an extended attribute. */
const longestKey = 246
const mostBytes = 4096

/** The metadata an upload brings in `X-Metadata-<key>: <value>`; keys are in lower case. */
export function metadataIn(headers: IncomingHttpHeaders): FileMetadata {
  const metadata: FileMetadata = {}
  let size = 0
  for (const [name, value] of Object.entries(headers)) {
    if (!name.startsWith(prefix)) continue
    const key = name.slice(prefix.length)
    const text = String(value)
    if (key === '' || key.length > longestKey)
      throw new AppError('invalid_argument', `a metadata key must have 1 to ${longestKey} bytes: ${key}`)
    if (!/^[\x20-\x7e]*$/.test(text))
      throw new AppError('invalid_argument', `the metadata value of ${key} must be printable ASCII`)
    size += key.length + text.length
    metadata[key] = text
  }
  if (size > mostBytes)
    throw new AppError('invalid_argument', `the metadata is larger than ${mostBytes} bytes: give less of it`)
  return metadata
}
