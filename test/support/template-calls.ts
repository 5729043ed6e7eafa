/** What a client does to get a template, over the API's fixture. */
import assert from 'node:assert/strict'
import type { openApi } from './api.ts'
import { addTeam, until } from './domain.ts'

export type Warren = Awaited<ReturnType<typeof openApi>>

export const plainBuild = { fromImage: 'debian:12', steps: [] }

export async function requested({ ask }: Warren, name: string, more: object = {}) {
  const answer = await ask('POST', '/v3/templates', { body: { name, ...more } })
  assert.equal(answer.status, 202, answer.body)
  const { templateID, buildID } = answer.json() as { templateID: string; buildID: string }
  return { templateID, buildID, path: `/templates/${templateID}/builds/${buildID}` }
}

/** Started, and ended one way or the other. */
export async function built(warren: Warren, name: string, body: object = plainBuild, more: object = {}) {
  const build = await requested(warren, name, more)
  const answer = await warren.ask('POST', `/v2${build.path}`, { body })
  assert.equal(answer.status, 202, answer.body)
  await until(async () => {
    const { status } = (await warren.ask('GET', `${build.path}/status`)).json()
    return status === 'ready' || status === 'error'
  })
  return build
}

/** The headers of another team, `beta`. */
export async function another({ fixture, teams }: Warren) {
  const { teamID } = await addTeam(fixture, 'beta')
  return { headers: { 'x-api-key': (await teams.createKey(teamID, 'other')).key } }
}
