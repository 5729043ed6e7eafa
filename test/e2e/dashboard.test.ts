/** The dashboard in Chromium, against real sandboxes: what a person does there, and what nobody can do to them by it. */
import { after, before, describe } from 'node:test'
import { credentialSuite } from '../dashboard/credential-suite.ts'
import { DashboardFixture } from '../dashboard/fixture.ts'
import { keyboardSuite } from '../dashboard/keyboard-suite.ts'
import { operatorSuite } from '../dashboard/operator-suite.ts'
import { pageSuite } from '../dashboard/page-suite.ts'
import { phoneSuite } from '../dashboard/phone-suite.ts'
import { readableSuite } from '../dashboard/readable-suite.ts'
import { sandboxSuite } from '../dashboard/sandbox-suite.ts'
import { teamSuite } from '../dashboard/team-suite.ts'
import { templateSuite } from '../dashboard/template-suite.ts'
import { anyIsolation, joinWarren } from '../support/warren.ts'

describe('the dashboard', () => {
  const dashboard = new DashboardFixture()
  before(async () => dashboard.start(await joinWarren(anyIsolation)))
  after(() => dashboard.close())

  sandboxSuite(dashboard)
  teamSuite(dashboard)
  templateSuite(dashboard)
  keyboardSuite(dashboard)
  phoneSuite(dashboard)
  pageSuite(dashboard)
  readableSuite(dashboard)
  operatorSuite(dashboard)
  // It logs out, and then looks at what the others have met.
  credentialSuite(dashboard)
})
