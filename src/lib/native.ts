/** The C library for the server, through the addon that npm installed beside it. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { getSystemErrorName } from 'node:util'
import { AppError } from './app-error.ts'
import { type CFunction, openCLibrary } from './c-library.ts'

export type NativeLibc = {
  func(prototype: string): CFunction
  /** The failure of the last call, as an error with its code. */
  failure(call: string): NodeJS.ErrnoException
}

const machine = `linux-${process.arch}`

/** Undefined: Warren was installed without it. */
export function addonFile(): string | undefined {
  try {
    const described = createRequire(import.meta.url).resolve(`@koromix/koffi-${machine}/package.json`)
    return join(dirname(described), machine.replace('-', '_'), 'koffi.node')
  } catch {
    return undefined
  }
}

/** `without` says what is not possible if it is missing. */
export function requireAddonFile(without: string): string {
  const file = addonFile()
  if (file !== undefined) return file
  throw new AppError('unavailable', missingAddon(without))
}

function missingAddon(without: string): string {
  const advice = `the package @koromix/koffi-${machine} is missing. Install Warren again with its optional packages.`
  return `${without}: ${advice}`
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
