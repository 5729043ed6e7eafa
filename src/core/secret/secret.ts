/**
 * A secret and its limits. Errors are fixed sentences that never repeat the caller's input, so that no log or
 * screen shows a value that was put into the wrong field.
 */
import { AppError } from '../../lib/app-error.ts'
import type { SecretOwner } from './vault.ts'

/** A secret as clients see it, without its value. */
export type Secret = {
  secretID: string
  teamID: string
  name: string
  /** Counts from 1; each new value gets the next number. */
  currentVersion: number
  metadata: Record<string, string>
  createdAt: number
  updatedAt: number
}

/** Identifies one version of a secret's value for the vault. */
export const ownerOf = ({
  teamID,
  secretID,
  currentVersion,
}: Pick<Secret, 'teamID' | 'secretID' | 'currentVersion'>): SecretOwner => ({
  identity: ['warren secret', teamID, secretID, currentVersion],
  name: `The secret ${secretID}`,
  remedy: 'give the secret a new value',
})

export type SecretReference = { secretID: string } | { name: string }

export const secretLimits = {
  perTeam: 1000,
  /** Versions of one secret to retain. Older values are deleted. */
  maxVersions: 10,
  /** Larger values do not fit into the headers of any common web server. */
  valueBytes: 16 * 1024,
  metadataEntries: 32,
  metadataKeyBytes: 128,
  metadataValueBytes: 1024,
  metadataBytes: 8192,
} as const

const idPrefix = 'sec_'
const idPattern = /^sec_[0-7][0-9a-hjkmnp-tv-z]{25}$/
const namePattern = /^[a-zA-Z0-9_-]{1,128}$/
/** Characters that no header can hold: control characters except the tab. */
const unsendable = /[^\P{Cc}\t]/u

export const invalidSecret = (why: string): AppError =>
  new AppError('invalid_argument', `Invalid secrets request: ${why}`)

/**
 * Returns the name as it is stored. ASCII is checked before lowercasing, because some other letters become
 * ASCII by it.
 */
export function secretName(text: string): string {
  if (!namePattern.test(text)) {
    throw invalidSecret("a name is 1 to 128 letters, digits, '-' and '_'")
  }
  const name = text.toLowerCase()
  if (name.startsWith(idPrefix)) throw invalidSecret(`names cannot begin with ${idPrefix}, as ids do`)
  return name
}

/** A text that begins like an ID is read as an ID, never as a name. */
export function secretReference(text: string): SecretReference {
  const lowered = text.toLowerCase()
  if (!lowered.startsWith(idPrefix)) return { name: secretName(text) }
  if (!idPattern.test(lowered)) throw invalidSecret(`an id is ${idPrefix} and 26 letters and digits`)
  return { secretID: lowered }
}

export function checkValue(value: string): void {
  if (value === '') throw invalidSecret('the value is empty')
  if (bytesOf(value) > secretLimits.valueBytes) {
    throw invalidSecret(`the value is longer than ${secretLimits.valueBytes} bytes`)
  }
  if (unsendable.test(value) || !value.isWellFormed()) {
    throw invalidSecret('the value has a line break or another character that cannot be sent in a header')
  }
}

export function checkMetadata(metadata: Readonly<Record<string, string>>): void {
  const entries = Object.entries(metadata)
  const { metadataEntries, metadataKeyBytes, metadataValueBytes, metadataBytes } = secretLimits
  if (entries.length > metadataEntries) {
    throw invalidSecret(`metadata has more than ${metadataEntries} entries`)
  }
  let total = 0
  for (const [key, value] of entries) {
    const [ofKey, ofValue] = [bytesOf(key), bytesOf(value)]
    if (ofKey === 0) throw invalidSecret('a metadata key is empty')
    if (ofKey > metadataKeyBytes) {
      throw invalidSecret(`a metadata key is longer than ${metadataKeyBytes} bytes`)
    }
    if (ofValue > metadataValueBytes) {
      throw invalidSecret(`a metadata value is longer than ${metadataValueBytes} bytes`)
    }
    total += ofKey + ofValue
  }
  if (total > metadataBytes) throw invalidSecret(`metadata is longer than ${metadataBytes} bytes in total`)
}

const bytesOf = (text: string): number => Buffer.byteLength(text)
