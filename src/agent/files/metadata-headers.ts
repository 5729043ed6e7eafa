import type { IncomingMessage } from 'node:http'
import { AppError } from '../../lib/app-error.ts'
import { attributePrefix, type FileMetadata } from '../filesystem/metadata.ts'

const prefix = 'x-metadata-'
/** The kernel's limit for the name of an attribute, minus our prefix. */
const longestKey = 255 - attributePrefix.length
/** Includes the names of attributes. */
const maxBytes = 4096

/**
 * The metadata of an upload in `X-Metadata-<key>: <value>`: keys in lower case; of several values, the first.
 */
export function metadataIn({ headersDistinct }: IncomingMessage): FileMetadata {
  const pairs: [string, string][] = []
  let size = 0
  for (const [name, values] of Object.entries(headersDistinct)) {
    if (!name.startsWith(prefix)) continue
    const key = name.slice(prefix.length)
    const text = values?.[0] ?? ''
    if (key === '' || key.length > longestKey)
      throw new AppError('invalid_argument', `a metadata key must have 1 to ${longestKey} bytes: ${key}`)
    if (!/^[\x20-\x7e]*$/.test(text))
      throw new AppError('invalid_argument', `the metadata value of ${key} must be printable ASCII`)
    size += attributePrefix.length + key.length + text.length
    pairs.push([key, text])
  }
  if (size > maxBytes)
    throw new AppError('invalid_argument', `the metadata is larger than ${maxBytes} bytes: give less of it`)
  // By assignment a key called `__proto__` would be lost.
  return Object.fromEntries(pairs)
}
