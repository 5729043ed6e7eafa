import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sizes } from '../../../test/support/builds.ts'
import { addTeam, failsWith, openFixture, turning } from '../../../test/support/domain.ts'
import { connectionLost } from '../../../test/support/store-faults.ts'
import { parseTemplateReference } from '../template/reference.ts'

const removal = { force: true, missing: [] }

describe('deleting a team', () => {
  it('continues if another request deletes one of its templates meanwhile', async () => {
    await using fixture = await openFixture()
    const { teamRemover, remover, builds, stores, storeFaults } = fixture
    const team = await addTeam(fixture, 'beta')
    const [one] = await Promise.all(
      ['one', 'two'].map((name) => builds.request(team, parseTemplateReference(name), ['default'], sizes)),
    )
    storeFaults.templates.after = async (method) => {
      if (method !== 'listTemplates') return
      storeFaults.templates.after = () => {}
      await remover.remove(team, one!.template.templateID)
    }
    await teamRemover.remove(team, removal)
    assert.equal(await stores.teams.findTeam('beta'), undefined)
  })

  it('is a success if the answer is lost, and not_found if there is no such team', async () => {
    await using fixture = await openFixture()
    const { teamRemover, stores, clock } = fixture
    const team = await addTeam(fixture, 'beta')
    const deleteUnused = stores.teams.deleteUnused.bind(stores.teams)
    stores.teams.deleteUnused = async (teamID) => {
      await deleteUnused(teamID)
      stores.teams.deleteUnused = deleteUnused
      throw connectionLost()
    }
    await turning(clock, teamRemover.remove(team, removal))
    await assert.rejects(teamRemover.remove(team, removal), failsWith('not_found'))
  })
})
