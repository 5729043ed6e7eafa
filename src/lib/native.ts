/** The C library for the server, through the addon that lies in the project, built for both kinds of machines. */
import { existsSync } from 'node:fs'
import { findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import { getSystemErrorName } from 'node:util'
import { AppError } from './app-error.ts'
import { type CFunction, openCLibrary } from './c-library.ts'

export type NativeLibc = {
  func(prototype: string): CFunction
  /** The failure of the last call, as an error with its code. */
  failure(call: string): NodeJS.ErrnoException
}

const builtFile = `native/built/linux-${process.arch}.node`

let builtPath: string | undefined

/** Undefined if there is no addon for this machine. */
export function addonFile(): string | undefined {
  builtPath ??= join(dirname(findPackageJSON(import.meta.url)!), builtFile)
  return existsSync(builtPath) ? builtPath : undefined
}

/** `without` says what is not possible if it is missing. */
export function requireAddonFile(without: string): string {
  const file = addonFile()
  if (file !== undefined) return file
  throw new AppError('unavailable', missingAddon(without))
}

function missingAddon(without: string): string {
  return `${without}: the file ${builtFile} of Warren is missing. Warren runs on x64 and arm64; install it again there.`
}

/** `without` says what is not possible if it is missing. */
export function openNativeLibc(without: string): NativeLibc {
  const library = openCLibrary(addonFile() ?? '', missingAddon(without))
  return {
    func: library.func,
    failure: (call) => {
      const code = getSystemErrorName(-library.errno())
      return Object.assign(new Error(`${code}: ${call}`), { code })
    },
  }
}
