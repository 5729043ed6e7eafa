/** Converts a cell to code that V8 can evaluate: erases types, and turns imports into awaited calls. */
import { stripTypeScriptTypes } from 'node:module'
import { type AnyNode, type ImportDeclaration, parse } from 'acorn'

/** The function that replaces `import` in cells, which V8 does not let load modules themselves. */
export const importName = '__warrenImport'

type Change = { start: number; end: number; text: string }

/** Returns a cell that cannot be parsed unchanged: V8 then reports the error. */
export function cellSource(code: string): string {
  const erased = withoutTypes(code)
  const changes = changesOf(erased)
  if (changes === undefined) return code
  return changes
    .sort((a, b) => b.start - a.start)
    .reduce((text, { start, end, text: next }) => text.slice(0, start) + next + text.slice(end), erased)
}

function withoutTypes(code: string): string {
  for (const mode of ['strip', 'transform'] as const) {
    try {
      return stripTypeScriptTypes(code, { mode })
    } catch {
      // `transform` also handles syntax that must be replaced, such as enums.
    }
  }
  return code
}

function changesOf(code: string): Change[] | undefined {
  const options = { ecmaVersion: 'latest', sourceType: 'module', allowAwaitOutsideFunction: true } as const
  try {
    const changes: Change[] = []
    collect(parse(code, options), code, changes)
    return changes
  } catch {
    return undefined
  }
}

function collect(node: AnyNode, code: string, changes: Change[]): void {
  const { start, end } = node
  switch (node.type) {
    case 'ImportDeclaration':
      changes.push({ start, end, text: importStatement(node) })
      return
    case 'ExportAllDeclaration':
      changes.push({ start, end, text: '' })
      return
    case 'ImportExpression':
      changes.push({ start, end: start + 'import'.length, text: importName })
      break
    case 'ExportNamedDeclaration':
      changes.push({ start, end: node.declaration?.start ?? end, text: '' })
      break
    case 'ExportDefaultDeclaration':
      changes.push({ start, end: node.declaration.start, text: '' })
      break
  }
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (typeof child?.type === 'string') collect(child, code, changes)
    }
  }
}

function importStatement({ specifiers, source, attributes = [] }: ImportDeclaration): string {
  const options = attributes.map(({ key, value }) => {
    const name = key.type === 'Identifier' ? key.name : String(key.value)
    return `${JSON.stringify(name)}: ${JSON.stringify(value.value)}`
  })
  const second = options.length > 0 ? `, { with: { ${options.join(', ')} } }` : ''
  const call = `await ${importName}(${JSON.stringify(source.value)}${second})`
  const parts = specifiers.flatMap((one) => {
    if (one.type === 'ImportNamespaceSpecifier') return []
    if (one.type === 'ImportDefaultSpecifier') return [`default: ${one.local.name}`]
    const name = one.imported.type === 'Identifier' ? one.imported.name : JSON.stringify(one.imported.value)
    return [`${name}: ${one.local.name}`]
  })
  const whole = specifiers.find(({ type }) => type === 'ImportNamespaceSpecifier')
  const statements = [
    ...(whole ? [`const ${whole.local.name} = ${call};`] : []),
    ...(parts.length > 0 ? [`const { ${parts.join(', ')} } = ${call};`] : []),
  ]
  return statements.join(' ') || `${call};`
}
