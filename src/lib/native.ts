/** The addon (koffi) through which functions of the C library are called that Node does not offer. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { getSystemErrorName } from 'node:util'
import { AppError } from './app-error.ts'

export type CFunction = (...values: unknown[]) => number
type Addon = { load(library: string): { func(prototype: string): CFunction }; errno(): number }

export type NativeLibc = {
  func(prototype: string): CFunction
  /** Of the last call, as an error with its code. */
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
export function openNativeLibc(without: string): NativeLibc {
  const module = { exports: {} as Addon }
  try {
    process.dlopen(module, addonFile() ?? '')
  } catch (error) {
    throw new AppError(
      'unavailable',
      `${without}: the package @koromix/koffi-${machine} is missing. Install Warren again with its optional packages.`,
      { cause: error },
    )
  }
  const addon = module.exports
  const library = addon.load('libc.so.6')
  return {
    func: (prototype) => library.func(prototype),
    failure: (call) => {
      const code = getSystemErrorName(-addon.errno())
      return Object.assign(new Error(`${code}: ${call}`), { code })
    },
  }
}
