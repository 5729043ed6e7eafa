/** Where a page of tags or of assignments ended. Opaque to clients. */
import { createHash } from 'node:crypto'
import type { Assignment } from '../../../contract/rest/tag-history.ts'
import type { ReadyAssignment } from '../../../core/template/tag-history.ts'
import { AppError } from '../../../lib/app-error.ts'
import { dateTime } from '../../present.ts'

type TagCursor = { tag: string; sequence: number }

/** `order` binds the cursor to its list. */
export function encodeTagCursor({ tag, sequence }: TagCursor, order: string): string {
  return Buffer.from(`${order} ${sequence} ${tag}`).toString('base64url')
}

export function decodeTagCursor(cursor: string, order: string): TagCursor {
  const [ofOrder, sequence = '', tag = '', ...rest] = Buffer.from(cursor, 'base64url').toString().split(' ')
  if (ofOrder === order && /^\d{1,15}$/.test(sequence) && tag !== '' && rest.length === 0) {
    return { tag, sequence: Number(sequence) }
  }
  throw new AppError(
    'invalid_argument',
    'Invalid cursor: use the nextCursor of the page before, with the same order',
  )
}

export function presentAssignment(assignment: ReadyAssignment): Assignment {
  const { sequence, buildID, assignedAt, buildCreatedAt, buildFinishedAt } = assignment
  return {
    assignmentId: idOf(`${buildID} ${sequence}`),
    buildId: buildID,
    assignedAt: dateTime(assignedAt),
    buildCreatedAt: dateTime(buildCreatedAt),
    buildFinishedAt: buildFinishedAt === null ? null : dateTime(buildFinishedAt),
  }
}

/** Assignments have a number within their template, and clients expect a UUID: version 8 of RFC 9562. */
function idOf(name: string): string {
  const bytes = createHash('sha256').update(name).digest().subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x80
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
