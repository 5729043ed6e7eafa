/** The grammar `[namespace/]alias[:tag]`: trimmed and lowercased; `:default` is the same as no tag. */
import { AppError, isAppError } from '../../lib/app-error.ts'
import { uuidForm } from '../../lib/ids.ts'

export type TemplateReference = { namespace: string | null; alias: string; tag: string }

export const defaultTag = 'default'
const namePattern = /^[a-z0-9-_]+$/
const tagPattern = /^[a-z0-9-_.]+$/

/** Parses a tag to assign. A tag in the form of a build ID would hide the build with that ID. */
export function parseTag(text: string): string {
  const tag = text.trim().toLowerCase()
  if (tagPattern.test(tag) && tag.length <= 128 && !uuidForm.test(tag)) return tag
  throw new AppError(
    'invalid_argument',
    `Invalid tag: '${text.slice(0, 128)}'; use letters, digits, - _ and .`,
  )
}

/** Parses a name for a template; its errors say "name" instead of "template reference". */
export function parseTemplateName(text: string): TemplateReference {
  try {
    return parseTemplateReference(text)
  } catch (error) {
    if (!isAppError(error)) throw error
    throw new AppError('invalid_argument', error.message.replace('template reference', 'name'))
  }
}

export function parseTemplateReference(text: string): TemplateReference {
  const refuse = (why: string) =>
    new AppError('invalid_argument', `Invalid template reference: ${why}; write it as [namespace/]name[:tag]`)
  const trimmed = text.trim().toLowerCase()
  if (trimmed.length > 384) throw refuse('it is too long')
  const colon = trimmed.indexOf(':')
  const path = colon < 0 ? trimmed : trimmed.slice(0, colon)
  const tag = colon < 0 ? defaultTag : trimmed.slice(colon + 1)
  const slash = path.indexOf('/')
  const namespace = slash < 0 ? null : path.slice(0, slash)
  const alias = slash < 0 ? path : path.slice(slash + 1)
  if (!namePattern.test(alias)) throw refuse(`'${text.slice(0, 128)}' has no valid name`)
  if (namespace !== null && !namePattern.test(namespace))
    throw refuse(`'${namespace}' is not a valid namespace`)
  if (!tagPattern.test(tag)) throw refuse(`'${tag}' is not a valid tag`)
  return { namespace, alias, tag }
}
