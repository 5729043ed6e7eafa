/** Functions of the C library that Node does not offer, called through our addon (`native/`). The only place that loads it. */
import { AppError } from './app-error.ts'

type Addon = {
  func(name: string, returnsLong: boolean): CFunction
  errno(): number
  view(address: Address, bytes: number): ArrayBuffer
  addressOf(buffer: Buffer): Address
  startProcess: CLibrary['startProcess']
}

/** An address in our memory. A number can hold it: no machine uses more than 52 bits of an address. */
export type Address = number

export type CFunction = (...values: unknown[]) => number
export type CLibrary = {
  /**
   * For a prototype as in C, with at most six parameters: integers, and pointers to a Buffer, a text (`char *`), a list of
   * texts (`char **`) or null. Returns a negative number, and sets the number that `errno` returns, if the C function does.
   */
  func(prototype: string): CFunction
  /** The error number of the last call. */
  errno(): number
  /** A view of memory that the C library allocated. Do not use it after that memory is freed. */
  view(address: Address, bytes: number): Buffer
  /**
   * Starts a process that makes the system calls at `steps` (`native/start-process.h`). Returns its pid or a negative error
   * number.
   */
  startProcess(steps: Address, stackEnd: Address, cloneFlags: number): number
}

const opened = new Map<string, CLibrary>()

/** Throws with the text of `missing` if the addon cannot be loaded. */
export function openCLibrary(
  addonPath: string,
  missing = 'this is not available here: the addon for calls of the C library is missing',
): CLibrary {
  const known = opened.get(addonPath)
  if (known) return known
  const module = { exports: {} as Addon }
  try {
    process.dlopen(module, addonPath)
  } catch (error) {
    throw new AppError('unavailable', missing, { cause: error })
  }
  const addon = module.exports
  const library: CLibrary = {
    func: (prototype) => bind(addon, prototype),
    errno: addon.errno,
    view: (address, bytes) => Buffer.from(addon.view(address, bytes)),
    startProcess: addon.startProcess,
  }
  opened.set(addonPath, library)
  return library
}

const prototypes = /^(int|long|int64_t|void \*) ?(\w+)\((.*)\)$/

function bind(addon: Addon, prototype: string): CFunction {
  const [, result, name, parameters] = prototypes.exec(prototype) ?? []
  if (name === undefined) throw new AppError('internal', `This prototype cannot be read: ${prototype}`)
  const call = addon.func(name, result !== 'int')
  if (!parameters!.includes('char *')) return call
  return (...values) => call(...values.map((value) => inMemory(addon, value)))
}

/** Converts texts to the form of C. */
function inMemory(addon: Addon, value: unknown): unknown {
  if (typeof value === 'string') return textBytes(value)
  return Array.isArray(value) ? textTable(addon, value) : value
}

function textBytes(text: string): Buffer {
  if (text.includes('\0')) throw new AppError('invalid_argument', 'A text for the system holds a zero byte.')
  return Buffer.from(`${text}\0`)
}

/** The addresses of the texts, then 0, then the texts: in one Buffer, so that all of it stays while it is used. */
function textTable(addon: Addon, texts: readonly string[]): Buffer {
  const tableBytes = (texts.length + 1) * BigUint64Array.BYTES_PER_ELEMENT
  const all = Buffer.concat([Buffer.alloc(tableBytes), ...texts.map(textBytes)])
  let at = addon.addressOf(all) + tableBytes
  texts.forEach((text, index) => {
    all.writeBigUInt64LE(BigInt(at), index * BigUint64Array.BYTES_PER_ELEMENT)
    at += Buffer.byteLength(text) + 1
  })
  return all
}
