/**
 * A shared library, made without a compiler, that makes a folder when a program loads it, if that program is a child of
 * pid 1: inside a sandbox that is the agent, and no command. For x86-64, on which the tests run.
 */

/** getppid() == 1 ? mkdir(path, 0777) : nothing */
function code(pathOffset: number): Buffer {
  const head = [0xb8, 110, 0, 0, 0, 0x0f, 0x05] // mov eax, 110 (getppid); syscall
  const unlessChildOfInit = [0x83, 0xf8, 0x01, 0x75, 0x13] // cmp eax, 1; jne to the ret
  const pathArgument = [0x48, 0x8d, 0x3d] // lea rdi, [rip + distance]
  const distance = Buffer.alloc(4)
  distance.writeInt32LE(pathOffset - (head.length + unlessChildOfInit.length + pathArgument.length + 4))
  const makeFolder = [0xbe, 0xff, 0x01, 0, 0, 0xb8, 83, 0, 0, 0, 0x0f, 0x05] // mov esi, 0777; mov eax, 83; syscall
  const parts = [head, unlessChildOfInit, pathArgument, distance, makeFolder, [0xc3]]
  return Buffer.concat(parts.map((part) => Buffer.from(part)))
}

export function markingLibrary(folder: string): Buffer {
  const [headBytes, segmentBytes, segments] = [64, 56, 3]
  const dynamicAt = headBytes + segmentBytes * segments
  const [strTab, symTab, strSize, symSize, init] = [5, 6, 10, 11, 12]
  const entries = 6
  const symbolsAt = dynamicAt + entries * 16
  const stringsAt = symbolsAt + 24
  const codeAt = stringsAt + 8
  const path = Buffer.from(`${folder}\0`)
  const program = code(64)
  const size = codeAt + 64 + path.length

  const file = Buffer.alloc(size)
  const long = (value: number, at: number) => file.writeBigUInt64LE(BigInt(value), at)
  Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]).copy(file)
  file.writeUInt16LE(3, 16) // a shared object
  file.writeUInt16LE(62, 18) // for x86-64
  file.writeUInt32LE(1, 20)
  long(headBytes, 32)
  file.writeUInt16LE(headBytes, 52)
  file.writeUInt16LE(segmentBytes, 54)
  file.writeUInt16LE(segments, 56)

  const segment = (index: number, type: number, flags: number, at: number, bytes: number, align: number) => {
    const segmentStart = headBytes + index * segmentBytes
    file.writeUInt32LE(type, segmentStart)
    file.writeUInt32LE(flags, segmentStart + 4)
    for (const offset of [8, 16, 24]) long(at, segmentStart + offset)
    for (const offset of [32, 40]) long(bytes, segmentStart + offset)
    long(align, segmentStart + 48)
  }
  segment(0, 1, 7, 0, size, 4096) // all of it is loaded
  segment(1, 2, 6, dynamicAt, entries * 16, 8)
  segment(2, 0x6474e551, 6, 0, 0, 16) // and asks for no stack that can be run

  const dynamic = [
    ...[[strTab, stringsAt] as const, [symTab, symbolsAt] as const, [strSize, 8] as const],
    ...[[symSize, 24] as const, [init, codeAt] as const, [0, 0] as const],
  ]
  for (const [index, [tag, value]] of dynamic.entries()) {
    long(tag, dynamicAt + index * 16)
    long(value, dynamicAt + index * 16 + 8)
  }
  program.copy(file, codeAt)
  path.copy(file, codeAt + 64)
  return file
}
