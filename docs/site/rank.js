// How well the sections of the documentation answer what somebody types. No page and no browser in here, so that a test can hold it.

/** Words that every question has, and that say nothing about the answer. */
const emptyWords = new Set(
  (
    'a about after all am an and any are as at be because before but by can did do does for from get has have how i if in is it its ' +
    'me my no not of on or our so that the their then there they this to was we what when where which while who why will with you your'
  ).split(' '),
)
/** Part of the words that a section may miss: a message that somebody pastes has names and figures in it that no page knows. */
const mostMissing = 0.4
const pageWeights = [
  // Records of choices and of measurements answer "why", which few ask first.
  [/^\/docs\/(?:decisions|measurements)\b/, 0.4],
  [/^\/docs\/(?:CHANGELOG|ARCHITECTURE|CONTRIBUTING|checklists|simulation|promises|api-coverage)\b/, 0.6],
]

const tokensOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? []

/** What is asked for: without empty words if others are left, each as the start of the words that count. */
function wantedOf(text) {
  const words = [...new Set(tokensOf(text))]
  const telling = words.filter((word) => !emptyWords.has(word))
  return (telling.length > 0 ? telling : words).map((word) =>
    word.length > 3 ? word.replace(/s$/, '') : word,
  )
}

/** Sections with what a search looks at. */
export function prepare(sections) {
  return sections.map((section) => ({
    section,
    title: tokensOf(section.title),
    page: tokensOf(section.page),
    text: ` ${tokensOf(section.text).join(' ')}`,
    weight: pageWeights.find(([pages]) => pages.test(section.url))?.[1] ?? 1,
  }))
}

function countIn(text, word) {
  let count = 0
  for (let at = text.indexOf(` ${word}`); at >= 0 && count < 8; at = text.indexOf(` ${word}`, at + 1)) count++
  return count
}

const has = (tokens, word) => tokens.some((token) => token.startsWith(word))

/** The sections that answer it, best first. A word that few sections have counts more. */
export function rankSections(prepared, text) {
  const wanted = wantedOf(text)
  if (wanted.length === 0) return []
  const found = prepared.map((one) => ({
    one,
    hits: wanted.map((word) => ({
      title: has(one.title, word),
      page: has(one.page, word),
      count: countIn(one.text, word),
    })),
  }))
  const isHit = ({ title, page, count }) => title || page || count > 0
  const rarity = wanted.map((_, at) => {
    const sections = found.filter(({ hits }) => isHit(hits[at])).length
    return Math.log(1 + prepared.length / Math.max(1, sections))
  })
  return found
    .map(({ one, hits }) => ({ section: one.section, score: scoreOf(one, hits, rarity) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ section }) => section)

  function scoreOf(one, hits, rarities) {
    // Of two words one is enough; sections that have both come first.
    const most = hits.length === 2 ? 1 : mostMissing * hits.length
    if (hits.filter((hit) => !isHit(hit)).length > most) return 0
    const points = hits.map(
      ({ title, page, count }, at) =>
        rarities[at] * ((title ? 6 : 0) + (page ? 2 : 0) + (count > 0 ? 1 + Math.log2(count) / 2 : 0)),
    )
    // A title that has little else answers just this.
    const asked = one.title.filter((token) => wanted.some((word) => token.startsWith(word))).length
    const telling = one.title.filter((token) => !emptyWords.has(token)).length
    const share = asked / Math.max(1, telling)
    return one.weight * points.reduce((sum, point) => sum + point, 0) * (1 + share / 2)
  }
}
