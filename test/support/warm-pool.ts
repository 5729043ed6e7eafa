/** The warm pool of a fixture: what waits in it, and the creates that make it wait. */
import assert from 'node:assert/strict'
import type { TemplateBuild } from '../../src/core/template/template.ts'
import { type Fixture, request } from './domain.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

/** Lets the pool do its due work, now or within this time. */
export async function passTime({ clock }: Fixture, ms = 1000): Promise<void> {
  clock.advance(ms)
  for (let round = 0; round < 100; round++) await turn()
}

export async function waiting({ driver, warm }: Fixture): Promise<string[]> {
  const found = await driver.list()
  return found.map(({ sandboxID }) => sandboxID).filter((sandboxID) => warm.owns(sandboxID))
}

/** The pool fills behind everybody's back; the fake driver needs only a few turns of the event loop for it. */
export async function poolHas(fixture: Fixture, count: number): Promise<string[]> {
  await passTime(fixture)
  for (let round = 0; round < 1000 && (await waiting(fixture)).length !== count; round++) await turn()
  const ids = await waiting(fixture)
  assert.equal(ids.length, count)
  return ids
}

/** A build of another template, on the root of the first. */
export async function addTemplate(
  { stores, catalog, team, clock }: Fixture,
  name: string,
  changes: Partial<TemplateBuild> = {},
): Promise<TemplateBuild> {
  const { build } = await catalog.resolve(team, 'base')
  const now = clock.now()
  const templateID = `template-${name}`
  const template = { templateID, teamID: team.teamID, public: false, isSnapshot: false, lastSpawnedAt: null }
  const made = { ...build, buildID: `build-${name}`, templateID, ...changes }
  await stores.templates.insertBuild(made, ['default'], {
    template: { ...template, spawnCount: 0, createdAt: now, updatedAt: now },
    names: [{ namespace: team.slug, alias: name }],
  })
  return made
}

/** By a team that may have any number. */
export async function createAtOnce(fixture: Fixture, count: number, template = 'base'): Promise<void> {
  const team = { ...fixture.team, limits: { ...fixture.team.limits, maxSandboxes: 1000 } }
  await Promise.all(Array.from({ length: count }, () => fixture.service.create(team, request({ template }))))
}

export const createOne = ({ service, team }: Fixture, template = 'base') =>
  service.create(team, request({ template }))
