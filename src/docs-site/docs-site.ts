/**
 * The documentation as a site: the pages of docs/, a search over them, and the reference of the API. It reads files of the
 * project and nothing else; pages are made when they are first asked for, and stay.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { ifPresent } from '../lib/if-present.ts'
import { runCommand } from '../lib/run-command.ts'
import { type ApiDocument, renderApi } from './api-reference.ts'
import { rootPages } from './contents.ts'
import { type RenderedPage, renderMarkdown } from './markdown.ts'
import { framedPage } from './page.ts'

export type SiteAnswer = { status: number; type: string; body: string | Buffer }

/** A page that no file has. */
const errors = 'errors'
/** Node says of stripping types that it may change. */
const quietly = '--disable-warning=ExperimentalWarning'
const html = 'text/html; charset=utf-8'
/** Files beside the pages that the site serves. */
const fileTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.webp': 'image/webp',
  '.json': 'application/json; charset=utf-8',
}
/** Number of characters of each section that the search index covers. */
const maxIndexed = 12_000

export class DocsSite {
  readonly #folder: string
  readonly #readApi: () => ApiDocument
  readonly #pages = new Map<string, Promise<RenderedPage>>()
  #titles: ReadonlyMap<string, string> | undefined
  #index: Promise<string> | undefined

  /** `folder` is that of the project. */
  constructor(folder: string, readApi: () => ApiDocument) {
    this.#folder = folder
    this.#readApi = readApi
  }

  /** `path` is what follows /docs/ in the address; empty: the first page. */
  async answer(path: string): Promise<SiteAnswer> {
    const name = path === '' ? 'index' : path.replace(/\/$/, '')
    if (name === 'search.json')
      return { status: 200, type: fileTypes['.json']!, body: await this.#searchIndex() }
    if (name === 'api') return this.#framed('api', renderApi(this.#readApi()))
    if (name === 'decisions') return this.#framed(name, await this.page('decisions/README'))
    if (this.titles().has(name)) return this.#framed(name, await this.page(name))
    const file = await this.#file(name)
    if (file) return file
    const missing = renderMarkdown(`# There is no such page\n\n[Begin here](index.md), or search.`, 'index')
    return { ...this.#framed(name, missing), status: 404 }
  }

  /** By the path of each page. */
  titles(): ReadonlyMap<string, string> {
    this.#titles ??= new Map([
      ...this.#names().map((name): [string, string] => [name, titleOf(this.#read(name), name)]),
      [errors, 'All error messages'],
    ])
    return this.#titles
  }

  page(name: string): Promise<RenderedPage> {
    const known = this.#pages.get(name) ?? this.#render(name)
    this.#pages.set(name, known)
    known.catch(() => this.#pages.delete(name))
    return known
  }

  async #render(name: string): Promise<RenderedPage> {
    return renderMarkdown(name === errors ? await this.#readErrors() : this.#read(name), name)
  }

  async #readErrors(): Promise<string> {
    const program = join(this.#folder, 'src/docs-site/error-texts.ts')
    const { stdout } = await runCommand(process.execPath, [quietly, program, this.#folder])
    return stdout
  }

  #framed(name: string, page: RenderedPage): SiteAnswer {
    return { status: 200, type: html, body: framedPage(name, page, this.titles()) }
  }

  #names(): string[] {
    const inDocs = (folder: string) =>
      readdirSync(join(this.#folder, 'docs', folder))
        .filter((file) => file.endsWith('.md'))
        .map((file) => posix.join(folder, file.slice(0, -'.md'.length)))
    const atRoot = rootPages.filter((name) => existsSync(join(this.#folder, `${name}.md`)))
    return [...inDocs(''), ...inDocs('decisions'), ...inDocs('measurements'), ...atRoot]
  }

  #read(name: string): string {
    const folder = rootPages.includes(name) ? this.#folder : join(this.#folder, 'docs')
    return readFileSync(join(folder, `${name}.md`), 'utf8')
  }

  /** Only names without a step up, with an ending that is known. */
  async #file(name: string): Promise<SiteAnswer | undefined> {
    const type = fileTypes[posix.extname(name)]
    if (type === undefined || !/^[\w-]+(?:\/[\w-]+)*\.\w+$/.test(name)) return undefined
    const body = await ifPresent(readFile(join(this.#folder, 'docs', name)))
    return body && { status: 200, type, body }
  }

  #searchIndex(): Promise<string> {
    const index = this.#index ?? this.#makeIndex()
    this.#index = index
    index.catch(() => {
      this.#index = undefined
    })
    return index
  }

  async #makeIndex(): Promise<string> {
    const names = [...this.titles().keys()]
    const pages = await Promise.all(names.map(async (name) => ({ name, page: await this.page(name) })))
    return JSON.stringify(
      pages.flatMap(({ name, page }) =>
        page.sections.map(({ id, title, text }) => ({
          page: page.title,
          title,
          url: `/docs/${name}#${id}`,
          text: text.slice(0, maxIndexed),
        })),
      ),
    )
  }
}

function titleOf(markdown: string, name: string): string {
  return /^# +(.+)$/m.exec(markdown)?.[1]?.replaceAll('`', '') ?? name
}
