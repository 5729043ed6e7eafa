/**
 * Parses the part of YAML in which tools write device specifications: indented maps and lists, and texts. Throws at the
 * rest of YAML (anchors, texts over several lines, maps in braces), so that it misreads nothing.
 */
export type PlainValue = string | null | PlainValue[] | { [key: string]: PlainValue }

type Line = { indent: number; text: string; number: number }

export function parsePlainYaml(text: string): PlainValue {
  const lines = text.split('\n').flatMap((whole, at): Line[] => {
    const content = whole.trimEnd()
    if (/^\s*(#.*)?$/.test(content) || content === '---') return []
    if (/^ *\t/.test(content)) throw new Error(`line ${at + 1} is indented with a tab`)
    return [{ indent: content.search(/\S/), text: content.trimStart(), number: at + 1 }]
  })
  const reader = { lines, at: 0 }
  const value = lines.length === 0 ? null : readBlock(reader, lines[0]!.indent)
  const left = lines[reader.at]
  if (left) throw new Error(`line ${left.number} is not indented as expected`)
  return value
}

type LineReader = { lines: Line[]; at: number }

function readBlock(reader: LineReader, indent: number): PlainValue {
  return isItem(reader.lines[reader.at]!) ? readList(reader, indent) : readMap(reader, indent)
}

const isItem = ({ text }: Line): boolean => text === '-' || text.startsWith('- ')

function readList(reader: LineReader, indent: number): PlainValue[] {
  const items: PlainValue[] = []
  for (;;) {
    const line = reader.lines[reader.at]
    if (line?.indent !== indent || !isItem(line)) return items
    const rest = line.text.slice(1).trimStart()
    if (rest === '') {
      reader.at++
      items.push(readBelow(reader, indent + 1))
    } else if (keyOf(rest)) {
      // The first key of a map follows the dash on the same line; the map's other keys are indented to the same column.
      const inner = indent + line.text.length - rest.length
      reader.lines[reader.at] = { ...line, indent: inner, text: rest }
      items.push(readMap(reader, inner))
    } else {
      reader.at++
      items.push(scalar(rest, line))
    }
  }
}

function readMap(reader: LineReader, indent: number): { [key: string]: PlainValue } {
  const map: { [key: string]: PlainValue } = Object.create(null)
  for (;;) {
    const line = reader.lines[reader.at]
    if (line?.indent !== indent || isItem(line)) return map
    const entry = keyOf(line.text)
    if (!entry) throw new Error(`line ${line.number} has no key`)
    reader.at++
    map[entry.key] = entry.rest === '' ? readBelow(reader, indent) : scalar(entry.rest, line)
  }
}

/** Reads the block below a key or dash without a value. A list may be indented like its key; a map is indented further. */
function readBelow(reader: LineReader, indent: number): PlainValue {
  const next = reader.lines[reader.at]
  if (!next) return null
  if (next.indent > indent || (next.indent === indent && isItem(next))) return readBlock(reader, next.indent)
  return null
}

function keyOf(text: string): { key: string; rest: string } | undefined {
  const [, quoted, plain, rest = ''] = /^(?:"([^"\\]*)"|([\w./-]+)):(?:\s+(.*))?$/.exec(text) ?? []
  const key = quoted ?? plain
  return key === undefined ? undefined : { key, rest }
}

function scalar(text: string, { number }: Line): PlainValue {
  if (text.startsWith('"')) return JSON.parse(text) as string
  if (/^'(?:[^']|'')*'$/.test(text)) return text.slice(1, -1).replaceAll("''", "'")
  if (text === '[]') return []
  if (text === '{}') return {}
  if (text === 'null' || text === '~') return null
  if (/^[[{&*!|>'@`%]/.test(text) || / #|: /.test(text)) throw new Error(`line ${number} is not plain`)
  return text
}
