/**
 * The `metadata` query: pairs joined by `&`. Newer clients encode it once more, so it is decoded once more
 * here.
 */
import { AppError } from '../lib/app-error.ts'

export function parseMetadataFilter(value: string): Record<string, string> {
  try {
    const pairs = unescapeQuery(value)
      .split('&')
      .filter((pair) => pair !== '')
      .map((pair): [string, string] => {
        const equals = pair.indexOf('=')
        if (equals < 0) throw new URIError(`no = in ${pair}`)
        return [unescapeQuery(pair.slice(0, equals)), unescapeQuery(pair.slice(equals + 1))]
      })
    return Object.fromEntries(pairs)
  } catch {
    throw new AppError(
      'invalid_argument',
      'Error parsing metadata: write it as key=value pairs joined by &, each key and value URL encoded',
    )
  }
}

const unescapeQuery = (text: string): string => decodeURIComponent(text.replaceAll('+', ' '))
