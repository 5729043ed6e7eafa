/** What axe finds on a page. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

export const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

type AxeReport = { violations: { id: string; impact: string; nodes: { html: string }[] }[] }

/** Every violation, however small. `within` is a selector; `rules` are all if left out. */
export async function findingsOf(page: Page, within: string, rules?: readonly string[]): Promise<string[]> {
  const options = { resultTypes: ['violations'], ...(rules && { runOnly: rules }) }
  const { violations } = (await page.evaluate(
    `axe.run('${within}', ${JSON.stringify(options)})`,
  )) as AxeReport
  return violations.map(({ id, impact, nodes }) => `${id} (${impact}): ${nodes[0]?.html}`)
}
