/** Reads a tar archive as it arrives, in pieces of any size, with at most one header in memory. */
import { applyPax, type PaxRecords, parsePax, xattrsIn } from './pax.ts'
import { badArchive, blockSize, entryOf, parseHeader, type TarEntry } from './tar-header.ts'

export interface TarHandler {
  /** For a file, `data` and `fileEnd` follow. */
  entry(entry: TarEntry): void
  data(chunk: Buffer): void
  fileEnd(): void
}

/** For long names and pax records; the kernel accepts no name or attribute nearly as large. */
const largestExtension = 1 << 20
const extensions = 'LKxg'

export class TarReader {
  readonly #handler: TarHandler
  readonly #header = Buffer.alloc(blockSize)
  #headerBytes = 0
  /** Remaining content of the present entry, and the zeros that fill its last block. */
  #contentLeft = 0
  #fillLeft = 0
  /** Set while the content is an extension, which is collected; undefined for that of a file. */
  #collecting: { type: string; parts: Buffer[] } | undefined
  #longName: string | undefined
  #longTarget: string | undefined
  #pax: PaxRecords = new Map()
  #ended = false

  constructor(handler: TarHandler) {
    this.#handler = handler
  }

  push(chunk: Buffer): void {
    let at = 0
    while (at < chunk.length && !this.#ended) {
      if (this.#contentLeft > 0) at += this.#takeContent(chunk, at)
      else if (this.#fillLeft > 0) at += this.#skipFill(chunk, at)
      else at += this.#takeHeader(chunk, at)
    }
  }

  /**
   * The two empty blocks at the end may be missing, as other readers allow; an incomplete entry is an error.
   */
  finish(): void {
    if (this.#ended) return
    const isWhole = this.#contentLeft === 0 && this.#fillLeft === 0 && this.#headerBytes === 0
    if (!isWhole || this.#hasExtensions()) throw badArchive('the archive ends in the middle of an entry')
  }

  #takeContent(chunk: Buffer, at: number): number {
    const part = chunk.subarray(at, at + this.#contentLeft)
    this.#contentLeft -= part.length
    // A copy, because the sender may reuse the chunk.
    if (this.#collecting) this.#collecting.parts.push(Buffer.from(part))
    else this.#handler.data(part)
    if (this.#contentLeft === 0) this.#endContent()
    return part.length
  }

  #endContent(): void {
    const collected = this.#collecting
    this.#collecting = undefined
    if (!collected) {
      this.#handler.fileEnd()
      return
    }
    const bytes = Buffer.concat(collected.parts)
    const text = () => bytes.toString('latin1').replace(/\0.*$/s, '')
    if (collected.type === 'L') this.#longName = text()
    else if (collected.type === 'K') this.#longTarget = text()
    // Ignores records for the whole archive, as container tools do.
    else if (collected.type === 'x') this.#pax = parsePax(bytes)
  }

  #skipFill(chunk: Buffer, at: number): number {
    const skipped = Math.min(this.#fillLeft, chunk.length - at)
    this.#fillLeft -= skipped
    return skipped
  }

  #takeHeader(chunk: Buffer, at: number): number {
    const copied = chunk.copy(this.#header, this.#headerBytes, at, at + blockSize - this.#headerBytes)
    this.#headerBytes += copied
    if (this.#headerBytes === blockSize) {
      this.#headerBytes = 0
      this.#readHeader()
    }
    return copied
  }

  #readHeader(): void {
    if (this.#header.every((byte) => byte === 0)) {
      if (this.#hasExtensions()) throw badArchive('the archive ends in the middle of an entry')
      this.#ended = true
      return
    }
    const raw = parseHeader(this.#header)
    if (extensions.includes(raw.type)) {
      this.#beginExtension(raw.type, raw.size)
      return
    }
    const header = applyPax(
      { ...raw, path: this.#longName ?? raw.path, target: this.#longTarget ?? raw.target },
      this.#pax,
    )
    const entry = entryOf(header, xattrsIn(this.#pax))
    this.#longName = this.#longTarget = undefined
    this.#pax = new Map()
    this.#expect(entry.size)
    this.#handler.entry(entry)
    if (entry.kind === 'file' && entry.size === 0) this.#handler.fileEnd()
  }

  #beginExtension(type: string, size: number): void {
    if (size > largestExtension)
      throw badArchive(`a header of ${size} bytes is larger than any name or attribute`)
    this.#collecting = { type, parts: [] }
    this.#expect(size)
    if (size === 0) this.#endContent()
  }

  #expect(size: number): void {
    if (size < 0) throw badArchive('a size is negative')
    this.#contentLeft = size
    this.#fillLeft = (blockSize - (size % blockSize)) % blockSize
  }

  #hasExtensions(): boolean {
    return this.#longName !== undefined || this.#longTarget !== undefined || this.#pax.size > 0
  }
}
