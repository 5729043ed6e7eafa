/**
 * Small JSON files with the version of their format. An unknown version is reported and never treated as a
 * missing file.
 */
import { readFile } from 'node:fs/promises'
import { AppError, errorText } from '../../../lib/app-error.ts'
import { ifPresent } from '../../../lib/if-present.ts'

/** Undefined if the file does not exist. Rejects if it cannot be read for any other reason. */
export async function readVersioned<T extends { version: number }>(
  path: string,
  version: T['version'],
): Promise<T | undefined> {
  const text = await readText(path)
  // Such files get their name when they are complete, so an empty one was cut off by a power failure.
  if (text === undefined || text === '') return undefined
  const content = parse(path, text) as T
  if (content.version === version) return content
  throw new AppError(
    'unavailable',
    `${path} has the format ${content.version}, and this version of Warren reads ${version}. ` +
      'Run the version of Warren that wrote it; nothing was changed.',
  )
}

/** Like `readVersioned`, for files that live only as long as one sandbox and have no version. */
export async function readJSON<T>(path: string): Promise<T | undefined> {
  const text = await readText(path)
  return text === undefined ? undefined : (parse(path, text) as T)
}

async function readText(path: string): Promise<string | undefined> {
  try {
    return await ifPresent(readFile(path, 'utf8'))
  } catch (error) {
    throw new AppError(
      'unavailable',
      `${path} could not be read: ${errorText(error)}. Nothing was changed.`,
      {
        cause: error,
      },
    )
  }
}

function parse(path: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new AppError(
      'unavailable',
      `${path} is damaged: ${errorText(error)}. Restore it from a backup, or remove it if it is not needed.`,
      { cause: error },
    )
  }
}
