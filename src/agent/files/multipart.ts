/** Reads multipart/form-data as it arrives, one part after another, and never holds more than a chunk. */
import { AppError } from '../../lib/app-error.ts'

type Part = { name: string; filename: string | undefined; body: AsyncGenerator<Buffer> }

const largestHead = 64 * 1024

export function boundaryOf(contentType: string): string {
  const match = /;\s*boundary=(?:"([^"]+)"|([^\s;"]+))/i.exec(contentType)
  const boundary = match?.[1] ?? match?.[2]
  if (boundary === undefined || boundary.length > 200) {
    throw new AppError('invalid_argument', 'the multipart Content-Type has no usable boundary')
  }
  return boundary
}

/** Asking for the next part skips the unread rest of the previous part's body. */
export async function* readParts(source: AsyncIterator<Buffer>, boundary: string): AsyncGenerator<Part> {
  const input = new Lookahead(source)
  const delimiter = Buffer.from(`\r\n--${boundary}`)
  // The first delimiter needs no line break before it; with one added, it looks like all others.
  input.prepend(Buffer.from('\r\n'))
  await drain(input.until(delimiter))
  while (await atPart(input)) {
    const head = await readHead(input, `--${boundary}`)
    const body = input.until(delimiter)
    yield { ...parseHead(head), body }
    await drain(body)
  }
}

/** Reads what follows a delimiter: `--` closes the form, a line break opens a part. */
async function atPart(input: Lookahead): Promise<boolean> {
  const mark = await input.read(2)
  if (mark === '--') return false
  if (mark === '\r\n') return true
  // RFC 2046 allows spaces between the boundary and its line break.
  for (let seen = mark; seen.trim() === '' && seen.length < 256; seen += await input.read(1)) {
    if (seen.endsWith('\r\n')) return true
  }
  throw malformed()
}

/** Rejects a boundary inside a head, which would give this part the body of the next one. */
async function readHead(input: Lookahead, boundaryLine: string): Promise<string> {
  let head = ''
  // The head is read line by line, since a part without headers has only the empty line.
  for (;;) {
    const line = await input.line(largestHead)
    if (line === '') return head
    head += `${line}\r\n`
    if (head.length > largestHead || line.startsWith(boundaryLine)) throw malformed()
  }
}

function parseHead(head: string): { name: string; filename: string | undefined } {
  const disposition = /^content-disposition:[ \t]*form-data\b(.*)$/im.exec(head)?.[1] ?? ''
  return { name: parameter(disposition, 'name') ?? '', filename: parameter(disposition, 'filename') }
}

function parameter(disposition: string, name: string): string | undefined {
  const extended = new RegExp(`;\\s*${name}\\*=UTF-8'[^']*'([^;\\s]+)`, 'i').exec(disposition)?.[1]
  if (extended !== undefined) return decoded(extended)
  const match = new RegExp(`;\\s*${name}=(?:"((?:\\\\.|[^"\\\\])*)"|([^;\\s"]+))`, 'i').exec(disposition)
  if (!match) return undefined
  // Some clients escape with a backslash; browsers write %22, %0D and %0A.
  const text = match[2] ?? match[1]!.replace(/\\(["\\])/g, '$1')
  return text.replace(/%(22|0D|0A)/gi, (code) => decodeURIComponent(code))
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw malformed()
  }
}

async function drain(chunks: AsyncGenerator<Buffer>): Promise<void> {
  for await (const _ of chunks);
}

function malformed(): AppError {
  return new AppError('invalid_argument', 'the multipart body is malformed or was cut off')
}

/** A stream of bytes with look-ahead. */
class Lookahead {
  #source: AsyncIterator<Buffer>
  #buffered: Buffer = Buffer.alloc(0)

  constructor(source: AsyncIterator<Buffer>) {
    this.#source = source
  }

  prepend(bytes: Buffer): void {
    this.#buffered = Buffer.concat([bytes, this.#buffered])
  }

  /** Yields everything before the delimiter, and consumes the delimiter too. */
  async *until(delimiter: Buffer): AsyncGenerator<Buffer> {
    for (;;) {
      const at = this.#buffered.indexOf(delimiter)
      if (at >= 0) {
        const last = this.#buffered.subarray(0, at)
        this.#buffered = this.#buffered.subarray(at + delimiter.length)
        if (last.length > 0) yield last
        return
      }
      const safe = this.#buffered.length - partialDelimiterBytes(this.#buffered, delimiter)
      const ready = this.#buffered.subarray(0, safe)
      this.#buffered = this.#buffered.subarray(safe)
      if (ready.length > 0) yield ready
      await this.#more()
    }
  }

  async read(length: number): Promise<string> {
    while (this.#buffered.length < length) await this.#more()
    const text = this.#buffered.subarray(0, length).toString('latin1')
    this.#buffered = this.#buffered.subarray(length)
    return text
  }

  async line(limit: number): Promise<string> {
    let at = this.#buffered.indexOf('\r\n')
    while (at < 0) {
      if (this.#buffered.length > limit) throw malformed()
      await this.#more()
      at = this.#buffered.indexOf('\r\n')
    }
    const line = this.#buffered.subarray(0, at).toString('utf8')
    this.#buffered = this.#buffered.subarray(at + 2)
    return line
  }

  async #more(): Promise<void> {
    const { done, value } = await this.#source.next()
    if (done) throw malformed()
    this.#buffered = this.#buffered.length === 0 ? value : Buffer.concat([this.#buffered, value])
  }
}

/** Returns how many bytes at the end of `buffered` may be the beginning of the delimiter: nearly always 0. */
function partialDelimiterBytes(buffered: Buffer, delimiter: Buffer): number {
  let at = buffered.indexOf(delimiter[0]!, Math.max(0, buffered.length - delimiter.length + 1))
  while (at >= 0) {
    if (buffered.compare(delimiter, 0, buffered.length - at, at) === 0) return buffered.length - at
    at = buffered.indexOf(delimiter[0]!, at + 1)
  }
  return 0
}
