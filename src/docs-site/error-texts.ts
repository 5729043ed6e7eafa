/**
 * Every text of an error that Warren makes, read off its sources. As a program it prints the page that shows them, of the
 * project in the folder that it is given: a second of work that the server leaves to another process.
 */
import { globSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { type AnyNode, type FunctionDeclaration, type Node, parse } from 'acorn'

/** Files whose messages no user sees: tests, and files that only tests use. */
const left = /\.test\.ts$|-suite\.ts$|-fixture\.ts$|src\/drivers\/fake\//

/** By code, in the order of the alphabet. */
export function errorTexts(folder: string): Map<string, string[]> {
  const found = new Map<string, Set<string>>()
  for (const file of globSync('src/**/*.ts', { cwd: folder })) {
    const source = left.test(file) ? '' : readFileSync(join(folder, file), 'utf8')
    if (!source.includes('new AppError(')) continue
    for (const [code, text] of textsOf(source)) {
      if (!found.has(code)) found.set(code, new Set())
      found.get(code)!.add(text)
    }
  }
  return new Map([...found].sort().map(([code, texts]) => [code, [...texts].sort()]))
}

export function textsOf(source: string): [code: string, text: string][] {
  const script = stripTypeScriptTypes(source)
  const file = new SourceFile(parse(script, { ecmaVersion: 'latest', sourceType: 'module' }))
  const made = file
    .all('NewExpression')
    .filter(({ callee }) => callee.type === 'Identifier' && callee.name === 'AppError')
  return made.flatMap(({ arguments: [code, message] }) => {
    const codes = code ? file.textsOf(code).filter((one) => /^[a-z]+(?:_[a-z]+)*$/.test(one)) : []
    const texts = message ? file.textsOf(message).filter((text) => /\w{2}/.test(text)) : []
    return codes.flatMap((one) => texts.map((text): [string, string] => [one, text]))
  })
}

type Of<Type extends AnyNode['type']> = Extract<AnyNode, { type: Type }>
type Caller = { called: string; parameters: readonly AnyNode[] }

/** Finds the texts that an expression may have, as far as the file says them; what it does not say is `…`. */
class SourceFile {
  readonly #nodes: AnyNode[] = []
  readonly #parents = new Map<AnyNode, AnyNode>()

  constructor(tree: Node) {
    this.#collect(tree as AnyNode)
  }

  #collect(node: AnyNode): void {
    this.#nodes.push(node)
    for (const child of Object.values(node).flat() as (AnyNode | null)[]) {
      if (typeof child?.type !== 'string') continue
      this.#parents.set(child, node)
      this.#collect(child)
    }
  }

  all<Type extends AnyNode['type']>(type: Type): Of<Type>[] {
    return this.#nodes.filter((node): node is Of<Type> => node.type === type)
  }

  textsOf(node: AnyNode, depth = 0): string[] {
    if (depth > 5) return []
    const inner = (one: AnyNode) => this.textsOf(one, depth + 1)
    const joined = (parts: string[][]) =>
      parts.reduce((texts, part) => texts.flatMap((text) => part.map((more) => text + more)), [''])
    switch (node.type) {
      case 'Literal':
        return typeof node.value === 'string' ? [node.value] : []
      case 'TemplateLiteral':
        return [node.quasis.map(({ value }) => value.cooked ?? '').join('…')]
      case 'BinaryExpression':
        return node.operator === '+' ? joined([inner(node.left), inner(node.right)]) : []
      case 'ConditionalExpression':
        return [...inner(node.consequent), ...inner(node.alternate)]
      case 'LogicalExpression':
        return [...inner(node.left), ...inner(node.right)]
      case 'Identifier':
        return this.#textsOfName(node, inner)
      default:
        return []
    }
  }

  /** A constant of the file, or what the callers within the file give to the function around it. */
  #textsOfName(node: Of<'Identifier'>, inner: (node: AnyNode) => string[]): string[] {
    const caller = this.#callerOf(node)
    const at =
      caller?.parameters.findIndex((one) => one.type === 'Identifier' && one.name === node.name) ?? -1
    if (caller && at >= 0) {
      const calls = [...this.all('CallExpression'), ...this.all('NewExpression')]
      return calls
        .filter(({ callee }) => callee.type === 'Identifier' && callee.name === caller.called)
        .flatMap((call) => (call.arguments[at] ? inner(call.arguments[at]) : []))
    }
    const declared = this.all('VariableDeclarator').find(
      ({ id }) => id.type === 'Identifier' && id.name === node.name,
    )
    return declared?.init ? inner(declared.init) : []
  }

  #callerOf(node: AnyNode): Caller | undefined {
    for (let at = this.#parents.get(node); at; at = this.#parents.get(at)) {
      if (at.type === 'FunctionDeclaration') {
        return { called: (at as FunctionDeclaration).id.name, parameters: at.params }
      }
      const parent = this.#parents.get(at)
      if (at.type === 'ArrowFunctionExpression' && parent?.type === 'VariableDeclarator') {
        const { id } = parent
        return id.type === 'Identifier' ? { called: id.name, parameters: at.params } : undefined
      }
    }
    return undefined
  }
}

type Remedy = { status: string; means: string; remedy: string }

/** The rows of docs/troubleshooting.md that have a code: its status, what it means and what to do. */
export function remedies(folder: string): Map<string, Remedy> {
  const page = readFileSync(join(folder, 'docs/troubleshooting.md'), 'utf8')
  const rows = page.matchAll(/^\| (\d{3}) \| (`\w+`(?:, `\w+`)*) \| (.+?) \| (.+?) \|$/gm)
  return new Map(
    [...rows].flatMap(([, status, codes, means, remedy]) =>
      codes!.split(', ').map((code): [string, Remedy] => {
        return [code.replaceAll('`', ''), { status: status!, means: means!, remedy: remedy! }]
      }),
    ),
  )
}

/** The page, in Markdown. */
function errorPage(folder: string): string {
  const known = remedies(folder)
  const byStatus = [...errorTexts(folder)]
    .map(([code, messages]) => ({ code, messages, ...known.get(code)! }))
    .sort((a, b) => Number(a.status) - Number(b.status))
  const chapters = byStatus.map(
    ({ code, messages, status, means, remedy }) =>
      `## ${status} ${code}\n\n**Meaning:** ${means}\n\n**What to do:** ${remedy}\n\n${messages.map(itemOf).join('\n')}\n`,
  )
  return `# All error messages

Every message that Warren answers with, sorted by HTTP status and error code; … stands for names and figures. Read
[Troubleshooting](troubleshooting.md) first. Your server made this page from its own sources.

${chapters.join('\n')}`
}

const itemOf = (text: string): string =>
  `- ${text.replaceAll(/\s*\n\s*/g, ' ').replaceAll(/[\\`*_<>[\]|]/g, '\\$&')}`

if (process.argv[1] === import.meta.filename) process.stdout.write(errorPage(process.argv[2]!))
