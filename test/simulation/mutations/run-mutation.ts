/**
 * `bin/node test/simulation/mutations/run-mutation.ts NAME [HISTORIES] [SEED]` puts one fault back into the code as it is loaded,
 * and prints the first history that breaks a rule, or that there is none. It tries SEED before the usual seeds. A process of
 * its own, because what is loaded stays.
 */
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { mutations } from './mutations.ts'

const [name = '', histories = '400', firstSeed] = process.argv.slice(2)
const mutation = mutations.find((one) => one.name === name)
if (!mutation)
  throw new Error(
    `There is no mutation '${name}'; there are: ${mutations.map((one) => one.name).join(', ')}.`,
  )

const root = join(import.meta.dirname, '../../..')
const edits = (mutation.edits ?? []).map((edit) => ({
  ...edit,
  url: pathToFileURL(join(root, edit.file)).href,
}))
for (const { file, from } of edits) {
  const found = readFileSync(join(root, file), 'utf8').split(from).length - 1
  if (found !== 1)
    throw new Error(`${file} holds ${found} times what '${name}' replaces; adapt mutations.ts: ${from}`)
}
registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    const own = edits.filter((one) => one.url === url)
    const source = own.reduce((text, { from, to }) => text.replace(from, () => to), String(loaded.source))
    return own.length > 0 ? { ...loaded, source } : loaded
  },
})

const { openDatabase, search, seedsFrom } = await import('../search.ts')
const seeds = [...(firstSeed === undefined ? [] : [Number(firstSeed)]), ...seedsFrom(1, Number(histories))]
const found = await search(await openDatabase(), seeds, {
  ...mutation.search,
  finds: mutation.finds,
})
console.log(
  found
    ? `found in history ${found.histories}, with seed ${found.seed}: ${found.violation.message}`
    : `nothing found in ${histories} histories`,
)
