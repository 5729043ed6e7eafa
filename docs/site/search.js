// The search of the documentation: everything happens in the browser, over an index that the server made once.
import { prepare, rankSections } from './rank.js'

const field = document.querySelector('#query')
const found = document.querySelector('#found')
const maxShown = 12
let index

/** Asked for once, however many letters are typed until it is there; after a failure, with the next letter. */
function loadIndex() {
  index ??= fetchIndex().catch((error) => {
    index = undefined
    throw error
  })
  return index
}

async function fetchIndex() {
  const response = await fetch('/docs/search.json')
  if (!response.ok) throw new Error(`The index of the search was answered with ${response.status}.`)
  return prepare(await response.json())
}

/** The words around the first place that has the word, none of them cut. */
function excerptOf(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 40)
  const from = at === 0 ? 0 : text.indexOf(' ', at) + 1
  const end = text.length <= from + 120 ? text.length : text.lastIndexOf(' ', from + 120)
  return `${from > 0 ? '… ' : ''}${text.slice(from, end)}${end < text.length ? ' …' : ''}`
}

function entryOf({ url, title, page, text }, word) {
  const item = document.createElement('li')
  const link = document.createElement('a')
  const about = document.createElement('small')
  link.href = url
  link.textContent = title === page ? title : `${page}: ${title}`
  about.textContent = excerptOf(text, word)
  link.append(about)
  item.append(link)
  return item
}

async function search() {
  const text = field.value
  if (text.trim() === '') {
    found.hidden = true
    return
  }
  const best = rankSections(await loadIndex(), text)
  // Somebody has typed on while the index was on its way.
  if (text !== field.value) return
  const [word = ''] = text.trim().toLowerCase().split(/\s+/)
  const entries = best.slice(0, maxShown).map((section) => entryOf(section, word))
  if (entries.length === 0) {
    const nothing = document.createElement('li')
    nothing.textContent = 'Nothing was found.'
    entries.push(nothing)
  }
  found.replaceChildren(...entries)
  found.hidden = false
}

field.addEventListener('input', search)
field.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') found.querySelector('a')?.click()
  if (event.key === 'ArrowDown') moveIn(event, 1)
  if (event.key === 'Escape') found.hidden = true
})
/** Goes to the next or the previous of what was found, and from the first back to the field. */
function moveIn(event, step) {
  const links = [...found.querySelectorAll('a')]
  event.preventDefault()
  const next = links[links.indexOf(document.activeElement) + step]
  if (next) next.focus()
  else if (step < 0) field.focus()
}

found.addEventListener('keydown', (event) => {
  if (event.key === 'ArrowDown') moveIn(event, 1)
  if (event.key === 'ArrowUp') moveIn(event, -1)
  if (event.key === 'Escape') {
    found.hidden = true
    field.focus()
  }
})
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target === field) return
  event.preventDefault()
  field.focus()
})
