/** Limits for the texts of a create request. */
import { AppError } from '../../../lib/app-error.ts'

/** Every list and event contains the metadata: pages of much larger ones would delay everybody else. */
const maxMetadataBytes = 64 * 1024
/** The kernel's limit for one variable, including its name, the = and a zero byte. */
const maxVariableBytes = 128 * 1024

type Texts = Record<string, string>

export function checkTexts({ metadata, envVars }: { metadata: Texts; envVars: Texts }): void {
  if (Object.entries(metadata).reduce((sum, pair) => sum + bytesOf(pair), 0) > maxMetadataBytes) {
    throw new AppError(
      'invalid_argument',
      `metadata has more than ${maxMetadataBytes} bytes: put large texts into a file of the sandbox`,
    )
  }
  const long = Object.entries(envVars).find((pair) => bytesOf(pair) + 2 > maxVariableBytes)
  if (long) {
    throw new AppError(
      'invalid_argument',
      `envVars: a variable may have at most ${maxVariableBytes} bytes: put '${long[0].slice(0, 100)}' into a file of the sandbox`,
    )
  }
}

const bytesOf = ([name, text]: [string, string]): number => Buffer.byteLength(name) + Buffer.byteLength(text)
