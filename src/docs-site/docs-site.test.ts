import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openApi } from '../../test/support/api.ts'
import { chapters } from './contents.ts'
import { DocsSite } from './docs-site.ts'
import { renderMarkdown, siteLink } from './markdown.ts'

const projectFolder = join(import.meta.dirname, '../..')
let site: DocsSite | undefined
const warren = await openApi({
  answerDocs(path, readApi) {
    site ??= new DocsSite(projectFolder, readApi as never)
    return site.answer(path)
  },
})
after(() => warren[Symbol.asyncDispose]())

const get = (path: string) => warren.ask('GET', path, { headers: { 'x-api-key': undefined } })

test('every page of docs is in the menu, and every page of the menu exists', async () => {
  const { body } = await get('/docs')
  const files = readdirSync(join(projectFolder, 'docs')).filter((name) => name.endsWith('.md'))
  const unlisted = files.filter((name) => !body.includes(`href="/docs/${name.replace(/\.md$/, '')}"`))
  assert.deepEqual(unlisted, [])
  const listed = chapters.flatMap(({ pages }) => pages)
  assert.deepEqual(listed, [...new Set(listed)], 'a page is in the menu twice')
  assert.deepEqual(
    listed.filter((name) => !site!.titles().has(name)),
    [],
  )
})

test('every link, picture and anchor of every page leads to a target on the site', async () => {
  const first = await get('/docs')
  assert.equal(first.status, 200)
  const pages = [...site!.titles().keys()].map((name) => `/docs/${name}`)
  const bodies = new Map<string, string>()
  for (const page of [...pages, '/docs/api', '/docs']) {
    const { status, body } = await get(page)
    assert.equal(status, 200, page)
    bodies.set(page, body)
  }
  const dead: string[] = []
  for (const [page, body] of bodies) {
    const found = body.matchAll(/(?:href|src)="(\/docs[^"]*|#[^"]*)"/g)
    for (const target of new Set([...found].map(([, link]) => link!))) {
      const [path = '', anchor] = (target.startsWith('#') ? `${page}${target}` : target).split('#', 2)
      const text = bodies.get(path) ?? ((await get(path)).status === 200 ? '' : undefined)
      const isThere = text !== undefined && (!anchor || text === '' || text.includes(`id="${anchor}"`))
      if (!isThere) dead.push(`${page}: ${target}`)
    }
  }
  assert.deepEqual(dead, [])
})

test('pages allow no script but their own and nothing from elsewhere', async () => {
  const { headers, body } = await get('/docs/api')
  const policy = String(headers['content-security-policy'])
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/)
  assert.match(policy, /frame-ancestors 'none'/)
  assert.ok(!/unsafe|https?:/.test(policy))
  assert.ok(!/<script(?![^>]*src="\/docs\/)|style="|\son\w+=/.test(body))
})

test('the search finds the text of pages, and its index contains every page', async () => {
  const sections = (await get('/docs/search.json')).json() as { url: string; title: string; text: string }[]
  const pages = new Set(sections.map(({ url }) => url.split('#')[0]))
  for (const name of site!.titles().keys()) assert.ok(pages.has(`/docs/${name}`), name)
  assert.ok(sections.some(({ url, text }) => url.startsWith('/docs/pausing') && text.includes('memory')))
})

test('the search answers a question with the section that answers it, before those that only have its words', async () => {
  const { prepare, rankSections } = await import(join(projectFolder, 'docs/site/rank.js'))
  const sections = prepare((await get('/docs/search.json')).json())
  const lifetime = '/docs/first-sandbox#timeout-how-long-a-sandbox-lives'
  for (const [asked, answer] of [
    ['timeout', lifetime],
    ['how long does a sandbox live', lifetime],
    ['How long do sandboxes live?', lifetime],
    ['first sandbox', '/docs/first-sandbox#your-first-sandbox'],
    ['how do I upgrade', '/docs/backup-and-upgrade#upgrade-it'],
    ['template dockerfile', '/docs/templates#from-a-dockerfile-without-a-client'],
    ['quick start', '/docs/index#quick-start'],
    ['secrets', '/docs/secrets#secrets'],
  ]) {
    assert.equal(rankSections(sections, asked)[0]?.url, answer, asked)
  }
  assert.deepEqual(rankSections(sections, '?!'), [])
  assert.deepEqual(rankSections(sections, 'qqqqq'), [])
  // A message with a name in it that no page has.
  assert.ok(rankSections(sections, "There is no snapshot 'xqzt'").length > 0)
})

test('the reference of the API shows every operation of the document', async () => {
  const { paths } = (await get('/openapi.json')).json() as { paths: Record<string, Record<string, object>> }
  const { body } = await get('/docs/api')
  for (const [path, methods] of Object.entries(paths)) {
    for (const method of Object.keys(methods)) {
      const shown = `${method.toUpperCase()}</code> <code>${path}</code>`
      assert.ok(body.includes(shown), `${method} ${path}`)
    }
  }
  assert.match(body, /<code>templateID<\/code> string <em>required<\/em>/)
})

test('only files of the documentation are served', async () => {
  for (const path of [
    '../package.json',
    '%2e%2e/package.json',
    'site/../../package.json',
    '.env',
    'nothing',
  ]) {
    assert.equal((await get(`/docs/${path}`)).status, 404, path)
  }
  const { status, headers } = await get('/docs/site/site.css')
  assert.deepEqual([status, headers['content-type']], [200, 'text/css; charset=utf-8'])
})

test('HTML in a page is shown as text, and links stay on the site', () => {
  const { html, title } = renderMarkdown(
    '# A & <b\n\n<script>x</script>\n\n[x](javascript:alert(1)) `a<b`',
    'x',
  )
  assert.equal(title, 'A & <b')
  assert.ok(!/<script|<b>|javascript:/.test(html), html)
  assert.equal(siteLink('decisions/0009-warm-pool.md', 'operate'), '/docs/decisions/0009-warm-pool')
  assert.equal(siteLink('../settings.md#a', 'decisions/0001'), '/docs/settings#a')
  assert.equal(siteLink('docs/settings.md', 'ARCHITECTURE'), '/docs/settings')
})

test('two headings of one name have two anchors', () => {
  const { sections } = renderMarkdown('# One\n\n## Use\n\na\n\n## Use\n\nb', 'x')
  assert.deepEqual(
    sections.map(({ id, text }) => [id, text.trim()]),
    [
      ['one', ''],
      ['use', 'a'],
      ['use-1', 'b'],
    ],
  )
})
