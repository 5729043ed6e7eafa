import type { PackedFile } from '../../core/ports/object-store.ts'

/** The memory and files of a fake sandbox, which tests write and read. */
export type FakeContent = { memory: Map<string, string>; files: Map<string, string> }

export const filesOf = (content: FakeContent): PackedFile[] =>
  (['memory', 'files'] as const).map((name) => ({ name, content: inOnePiece([...content[name]]) }))

/** Returns a reader that parses one exported file into `content`. */
export const readInto =
  (content: FakeContent, name: string) =>
  async (parts: AsyncIterable<Uint8Array>): Promise<void> => {
    const text: Uint8Array[] = []
    for await (const part of parts) text.push(part)
    content[name as keyof FakeContent] = new Map(JSON.parse(Buffer.concat(text).toString()))
  }

async function* inOnePiece(entries: [string, string][]): AsyncGenerator<Uint8Array> {
  yield Buffer.from(JSON.stringify(entries))
}
