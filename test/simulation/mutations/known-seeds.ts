/**
 * For each mutation a seed that found it, to be tried first: most of the time of a search goes to the histories before the
 * one that finds it. Code may change what a seed does; the search then goes on, so an old seed costs time and nothing else.
 * `bin/node test/simulation/mutations/known-seeds.ts` searches without them and keeps what it finds.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { mutations } from './mutations.ts'

const file = join(import.meta.dirname, 'known-seeds.json')
const script = join(import.meta.dirname, 'run-mutation.ts')

/** By the name of the mutation. */
export const knownSeeds = JSON.parse(readFileSync(file, 'utf8')) as Record<string, number>

function searchAgain(): Record<string, number> {
  const found = mutations.map(({ name, histories = 400 }) => {
    const said = execFileSync(process.execPath, [script, name, String(histories)], { encoding: 'utf8' })
    process.stdout.write(`${name}: ${said}`)
    return [name, Number(/ with seed (\d+):/.exec(said)?.[1])] as const
  })
  return Object.fromEntries(found.filter(([, seed]) => !Number.isNaN(seed)))
}

if (import.meta.main) writeFileSync(file, `${JSON.stringify(searchAgain(), null, 2)}\n`)
