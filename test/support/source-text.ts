/** Just enough reading of TypeScript to tell code from texts and comments, and to find what a file imports. */

export type Import = {
  /** As written; undefined when it is computed while running. */
  specifier: string | undefined
  typeOnly: boolean
}

/** The same source, character for character, with comments and the insides of texts and regexes blanked. */
export function maskTexts(source: string): string {
  let masked = ''
  let braces = 0
  /** Depths at which a `${` of a template text was opened. */
  const openTemplates: number[] = []
  const blankTo = (end: number) => {
    masked += source.slice(masked.length, end).replace(/[^\n]/g, ' ')
  }
  const copy = () => {
    masked += source[masked.length] ?? ''
  }
  const templateText = () => {
    const end = endOf(source, masked.length, (at) => source[at] === '`' || source.startsWith('${', at))
    blankTo(end)
    if (source[end] === '$') {
      openTemplates.push(braces)
      copy()
    }
    copy()
  }
  if (source.startsWith('#!')) blankTo(lineEnd(source, 0))
  while (masked.length < source.length) {
    const at = masked.length
    const character = source[at]
    if (source.startsWith('//', at)) blankTo(lineEnd(source, at))
    else if (source.startsWith('/*', at)) blankTo(after(source.indexOf('*/', at + 2), source))
    else if (character === "'" || character === '"') {
      copy()
      blankTo(endOf(source, at + 1, (i) => source[i] === character))
      copy()
    } else if (character === '`') {
      copy()
      templateText()
    } else if (character === '}' && openTemplates.at(-1) === braces) {
      openTemplates.pop()
      copy()
      templateText()
    } else if (character === '/' && regexMayStart(masked)) {
      copy()
      blankTo(regexEnd(source, at + 1))
      copy()
    } else {
      if (character === '{') braces++
      if (character === '}') braces--
      copy()
    }
  }
  return masked
}

/** Every static, side-effect and dynamic import and every re-export, types included. */
export function importsOf(source: string): Import[] {
  const masked = maskTexts(source)
  const found: Import[] = []
  for (const match of masked.matchAll(/\bfrom\s*['"]|\bimport\s*(?:\(\s*)?['"`]/g)) {
    const start = match.index + match[0].length
    const specifier = source.slice(
      start,
      endOf(source, start, (at) => /['"`]/.test(source[at]!)),
    )
    const before = masked.slice(0, match.index)
    const clause = before.slice(Math.max(before.lastIndexOf('import'), before.lastIndexOf('export'), 0))
    const typeOnly = match[0].startsWith('from') && /^(?:import|export)\s+type\b/.test(clause)
    found.push({ specifier: specifier.includes('${') ? undefined : specifier, typeOnly })
  }
  for (const _ of masked.matchAll(/\bimport\s*\(\s*[^'"`\s]/g))
    found.push({ specifier: undefined, typeOnly: false })
  return found
}

function lineEnd(source: string, from: number): number {
  const end = source.indexOf('\n', from)
  return end < 0 ? source.length : end
}

const after = (end: number, source: string) => (end < 0 ? source.length : end + 2)

/** The first place from `start` on that is an end and is not escaped. */
function endOf(source: string, start: number, isEnd: (at: number) => boolean): number {
  let at = start
  while (at < source.length && !isEnd(at)) at += source[at] === '\\' ? 2 : 1
  return Math.min(at, source.length)
}

function regexEnd(source: string, start: number): number {
  let inClass = false
  return endOf(source, start, (at) => {
    if (source[at] === '[') inClass = true
    if (source[at] === ']') inClass = false
    return source[at] === '\n' || (source[at] === '/' && !inClass)
  })
}

/** After a value a slash divides; after an operator, a bracket or a keyword it opens a regex. */
function regexMayStart(codeBefore: string): boolean {
  const tail = codeBefore.slice(-200).trimEnd()
  if (/\b(?:return|typeof|case|in|of|await|yield|void)$/.test(tail)) return true
  return !/[\w$)\]}'"`]$/.test(tail)
}
