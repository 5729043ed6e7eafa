/** The frame around every page: the menu, the search, and a table of contents. */
import { type Chapter, chapters } from './contents.ts'
import { escapeHtml, type RenderedPage, type Section } from './markdown.ts'

export function framedPage(path: string, page: RenderedPage, titles: ReadonlyMap<string, string>): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(page.title)} · Warren</title>
<link rel="icon" href="/docs/site/icon.svg">
<link rel="stylesheet" href="/docs/site/site.css">
<script type="module" src="/docs/site/search.js"></script>
<script src="/docs/site/copy.js" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the text</a>
<header>
<a class="brand" href="/docs"><img src="/docs/site/icon.svg" alt="" width="24" height="24">Warren</a>
<div class="search" role="search">
<label class="hidden" for="query">Search the documentation</label>
<input id="query" type="search" placeholder="Search ( / )" autocomplete="off" aria-controls="found">
<ol id="found" aria-live="polite" hidden></ol>
</div>
<nav aria-label="Elsewhere"><a class="to-menu" href="#menu">Pages</a><a href="/docs/api">API</a><a href="/dashboard">Dashboard</a></nav>
</header>
<div class="columns">
<nav class="menu" id="menu" aria-label="Pages">
${menu(titles)
  .map(({ title, pages }) => menuOf(title, pages, path, titles))
  .join('\n')}
</nav>
<main id="content">
${page.html}
</main>
<nav class="toc" aria-label="On this page">
${contentsOf(page.sections)}
</nav>
</div>
</body>
</html>
`
}

/** Pages that have no place in the chapters come last; decisions are reached from the pages that they explain. */
function menu(titles: ReadonlyMap<string, string>): Chapter[] {
  const listed = new Set(chapters.flatMap(({ pages }) => pages))
  const others = [...titles.keys()].filter((name) => !name.includes('/') && !listed.has(name))
  return others.length > 0 ? [...chapters, { title: 'More', pages: others }] : [...chapters]
}

function menuOf(
  title: string,
  pages: readonly string[],
  current: string,
  titles: ReadonlyMap<string, string>,
): string {
  const items = pages
    .filter((page) => titles.has(page))
    .map((page) => {
      const here = page === current ? ' aria-current="page"' : ''
      return `<li><a href="/docs/${page}"${here}>${escapeHtml(titles.get(page)!)}</a></li>`
    })
  return `<h2>${escapeHtml(title)}</h2>\n<ul>\n${items.join('\n')}\n</ul>`
}

function contentsOf(sections: readonly Section[]): string {
  const shown = sections.filter(({ level }) => level === 2)
  if (shown.length < 2) return ''
  const items = shown.map(({ id, title }) => `<li><a href="#${id}">${escapeHtml(title)}</a></li>`)
  return `<h2>On this page</h2>\n<ul>\n${items.join('\n')}\n</ul>`
}
