/** A page of docs/ as HTML: links lead to pages of the site, headings have anchors, and HTML in a page is shown as text. */
import { posix } from 'node:path'
import { Marked, type Tokens } from 'marked'
import { rootPages } from './contents.ts'

export type Section = { id: string; level: number; title: string; text: string }
export type RenderedPage = { title: string; html: string; sections: Section[] }

export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)

/** `path` is that of the page below docs/, without its ending. */
export function renderMarkdown(markdown: string, path: string): RenderedPage {
  const sections: Section[] = []
  const marked = new Marked({ gfm: true })
  marked.use({
    renderer: {
      html: ({ text }: Tokens.HTML | Tokens.Tag) => escapeHtml(text),
      heading({ tokens, depth, text }: Tokens.Heading) {
        const id = anchorOf(text, sections)
        sections.push({ id, level: depth, title: plainText(text), text: '' })
        return `<h${depth} id="${id}">${this.parser.parseInline(tokens)}</h${depth}>\n`
      },
      link({ href, tokens }: Tokens.Link) {
        return `<a href="${escapeHtml(siteLink(href, path))}">${this.parser.parseInline(tokens)}</a>`
      },
      image({ href, text }: Tokens.Image) {
        return `<img src="${escapeHtml(siteLink(href, path))}" alt="${escapeHtml(text)}">`
      },
      code({ text, lang = '' }: Tokens.Code) {
        const language = lang.split(' ')[0]
        return `<pre><code class="language-${escapeHtml(language!)}">${escapeHtml(text)}\n</code></pre>\n`
      },
    },
  })
  const tokens = marked.lexer(markdown)
  // Headings are met once for the index, in order with the texts between them, and once more when they are written.
  indexSections(tokens as Tokens.Generic[], sections)
  const indexed = sections.splice(0)
  const html = marked.parser(tokens)
  return { title: indexed[0]?.title ?? path, html, sections: indexed }
}

const textBlocks = new Set(['paragraph', 'code', 'table', 'list', 'blockquote'])

function indexSections(tokens: readonly Tokens.Generic[], sections: Section[]): void {
  for (const token of tokens) {
    if (token.type === 'heading') {
      const title = String(token.text)
      const id = anchorOf(title, sections)
      sections.push({ id, level: Number(token.depth), title: plainText(title), text: '' })
    } else if (textBlocks.has(token.type)) {
      const last = sections.at(-1)
      if (last) last.text += `${plainText(token.raw)} `
    }
  }
}

/** As GitHub makes them, so that links work in both places. */
function anchorOf(title: string, before: readonly Section[]): string {
  const plain = plainText(title)
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
  const base = plain || 'section'
  let id = base
  for (let count = 1; before.some((section) => section.id === id); count++) id = `${base}-${count}`
  return id
}

function plainText(markdown: string): string {
  return markdown
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[`*_|#>]+/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
}

/** Links between the files of the repository become links between pages of the site. */
export function siteLink(href: string, path: string): string {
  if (/^(?:[a-z][a-z+.-]*:|#|\/)/i.test(href)) return /^(?:https?:|mailto:|#|\/)/i.test(href) ? href : '#'
  const [file = '', anchor] = href.split('#', 2)
  const folder = rootPages.includes(path) ? '' : posix.join('docs', posix.dirname(path))
  const target = posix.normalize(posix.join(folder, file))
  const page = target.replace(/^docs\//, '').replace(/\.md$/, '')
  const known = page === 'README' ? 'index' : page
  return `/docs/${known}${anchor === undefined ? '' : `#${anchor}`}`
}
