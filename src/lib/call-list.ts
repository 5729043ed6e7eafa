/**
 * System calls for a new process to make before it becomes a program or ends, written out beforehand. The process shares
 * our memory until then, so that nothing has to be copied for it, and none of our own code may run in it: it makes one call
 * of the list after another (`native/start-process.c`) and ends at the first that fails.
 */
import { AppError } from './app-error.ts'
import type { Address, CLibrary } from './c-library.ts'

/** A call is a `struct step`: its number, four arguments, and the result; before the call whether it may fail. */
const wordsPerCall = 6
const maxValues = 4
const resultWord = 5
const wordBytes = 8
const maxCalls = 64
/** Size of the stack of the new process, which uses little of it. The stack grows down towards the calls. */
const stackEnd = maxCalls * wordsPerCall * wordBytes + 1024
/** Enough for most commands; a longer command gets its own memory. */
const usualBytes = 64 * 1024

/** PROT_READ and PROT_WRITE; MAP_PRIVATE and MAP_ANONYMOUS. */
const readAndWrite = 1 | 2
const ownMemory = 0x22

type CallName =
  | 'chdir'
  | 'close'
  | 'close_range'
  | 'dup3'
  | 'execve'
  | 'exit'
  | 'ioctl'
  | 'openat'
  | 'prlimit64'
  | 'read'
  | 'rt_sigaction'
  | 'rt_sigprocmask'
  | 'setgroups'
  | 'setns'
  | 'setresgid'
  | 'setresuid'
  | 'setsid'
  | 'umount2'
  | 'unshare'
  | 'write'

export type CallFailure = { call: CallName | 'clone' | 'socketpair'; errorNumber: number }

/** Linux gives system calls other numbers on each kind of machine. */
const callNumbers: Record<string, Record<CallName, number>> = {
  x64: {
    chdir: 80,
    close: 3,
    dup3: 292,
    execve: 59,
    ioctl: 16,
    openat: 257,
    rt_sigaction: 13,
    rt_sigprocmask: 14,
    setgroups: 116,
    setresgid: 119,
    setresuid: 117,
    setsid: 112,
    write: 1,
    prlimit64: 302,
    setns: 308,
    close_range: 436,
    exit: 60,
    read: 0,
    umount2: 166,
    unshare: 272,
  },
  arm64: {
    chdir: 49,
    close: 57,
    dup3: 24,
    execve: 221,
    ioctl: 29,
    openat: 56,
    rt_sigaction: 134,
    rt_sigprocmask: 135,
    setgroups: 159,
    setresgid: 149,
    setresuid: 147,
    setsid: 157,
    write: 64,
    prlimit64: 261,
    setns: 268,
    close_range: 436,
    exit: 93,
    read: 63,
    umount2: 39,
    unshare: 97,
  },
}

type CallMemory = {
  /**
   * Returns a list with the first calls of every process and space for this number of data bytes. Release it once the
   * process has executed a program or has ended.
   */
  beginList(dataBytes: number): CallList
}

/** `addFirst` adds the calls that every list begins with. They are written only once. */
export function openCallMemory(libc: CLibrary, addFirst: (list: CallList) => void): CallMemory {
  const numbers = callNumbers[process.arch]
  if (!numbers)
    throw new AppError('unavailable', `processes cannot be started on a machine of the kind ${process.arch}`)
  const map = mapMemory(libc)
  const munmap = libc.func('int munmap(void *address, size_t bytes)')
  const open = (bytes: number, release: (list: CallList) => void) => {
    const memory = map(bytes)
    const list = new CallList(numbers, memory.address, memory.bytes, () => release(list))
    addFirst(list)
    list.keepAsPrefix()
    return list
  }
  const openUsual = () => open(usualBytes, letGo)
  const letGo = (list: CallList) => {
    list.reset()
    free.push(list)
  }
  const free: CallList[] = []
  letGo(openUsual())
  const firstBytes = free[0]!.usedBytes
  return {
    beginList(dataBytes) {
      const bytes = firstBytes + dataBytes
      if (bytes <= usualBytes) return free.pop() ?? openUsual()
      return open(bytes, ({ address }) => munmap(address, bytes))
    },
  }
}

/** Memory outside of V8: a process may still need its list when the thread that started it has ended. */
function mapMemory(libc: CLibrary): (bytes: number) => { address: Address; bytes: Buffer } {
  const mmap = libc.func(
    'void *mmap(void *where, size_t bytes, int access, int flags, int file, long offset)',
  )
  return (bytes) => {
    const address = mmap(null, bytes, readAndWrite, ownMemory, -1, 0)
    if (address === -1) throw new AppError('limit_reached', 'there is no memory left to start a process')
    return { address, bytes: libc.view(address, bytes) }
  }
}

export class CallList {
  /** Where the first call lies, and where the stack ends. */
  readonly address: Address
  readonly stack: Address
  readonly release: () => void
  #numbers: Record<CallName, number>
  #bytes: Buffer
  /** Halves of words, the lower one first. */
  #halves: Int32Array
  #calls: { call: CallName; mayFail: boolean }[] = []
  #dataEnd = stackEnd
  #prefix = { calls: 0, dataEnd: stackEnd }

  constructor(numbers: Record<CallName, number>, address: Address, bytes: Buffer, release: () => void) {
    this.#numbers = numbers
    this.address = address
    this.stack = address + stackEnd
    this.release = release
    this.#bytes = bytes
    this.#halves = new Int32Array(bytes.buffer, bytes.byteOffset, Math.floor(bytes.length / 4))
  }

  get usedBytes(): number {
    return this.#dataEnd
  }

  /** Marks the calls added so far as the beginning, which `reset` does not remove. */
  keepAsPrefix(): void {
    this.#prefix = { calls: this.#calls.length, dataEnd: this.#dataEnd }
  }

  reset(): void {
    this.#calls.length = this.#prefix.calls
    this.#dataEnd = this.#prefix.dataEnd
  }

  add(call: CallName, ...values: (number | Address)[]): void {
    this.#add(call, values, false)
  }

  /** Adds a call that may fail: the process then goes on. */
  addOptional(call: CallName, ...values: (number | Address)[]): void {
    this.#add(call, values, true)
  }

  /** Throws if the list is full: a further call would overwrite the stack of the process, and a further text would be cut. */
  #add(call: CallName, values: number[], mayFail: boolean): void {
    if (this.#calls.length === maxCalls) throw tooLong(`more than ${maxCalls} system calls`)
    if (values.length > maxValues) throw tooLong(`a system call with more than ${maxValues} arguments`)
    const at = this.#calls.length * wordsPerCall
    this.#calls.push({ call, mayFail })
    this.#setWord(at, this.#numbers[call])
    for (let index = 0; index < maxValues; index++) this.#setWord(at + 1 + index, values[index] ?? 0)
    this.#setWord(at + resultWord, mayFail ? 1 : 0)
  }

  #setWord(at: number, value: number): void {
    this.#halves[2 * at] = value
    this.#halves[2 * at + 1] = Math.floor(value / 2 ** 32)
  }

  /** The address of a text that ends with a zero byte. */
  text(text: string): Address {
    const at = this.#takeBytes(Buffer.byteLength(text) + 1)
    this.#bytes[at + this.#bytes.write(text, at)] = 0
    return this.address + at
  }

  /** The address of a table of addresses that ends with a zero. */
  addresses(addresses: readonly Address[]): Address {
    const at = this.#takeWords(addresses.length + 1)
    for (const [index, address] of addresses.entries()) this.#setWord(at / wordBytes + index, address)
    this.#setWord(at / wordBytes + addresses.length, 0)
    return this.address + at
  }

  bytes(bytes: Uint8Array): Address {
    const at = this.#takeWords(Math.ceil(bytes.length / wordBytes))
    this.#bytes.set(bytes, at)
    return this.address + at
  }

  /** Reserves this number of words and returns where they begin. */
  #takeWords(count: number): number {
    this.#takeBytes(-this.#dataEnd & (wordBytes - 1))
    return this.#takeBytes(count * wordBytes)
  }

  #takeBytes(count: number): number {
    const at = this.#dataEnd
    if (at + count > this.#bytes.length) throw tooLong(`texts of more than ${this.#bytes.length} bytes`)
    this.#dataEnd += count
    return at
  }

  /** The call that ended the process, and its error number; undefined when all were made. */
  failure(): CallFailure | undefined {
    for (let index = 0; index < this.#calls.length; index++) {
      const result = this.#halves[2 * (index * wordsPerCall + resultWord)]!
      if (result >= 0) continue
      const { call, mayFail } = this.#calls[index]!
      if (!mayFail) return { call, errorNumber: -result }
    }
    return undefined
  }
}

const tooLong = (what: string) =>
  new AppError('internal', `A list of system calls is too long: it has ${what}.`)
