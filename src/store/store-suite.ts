/**
 * The behaviour that all engines share: each engine's test runs this with its own way to open an empty
 * database.
 */
import { type SuiteContext, suite, type TestContext, test } from 'node:test'
import type { Stores } from './stores.ts'
import { auditSuite } from './suite/audit.ts'
import { buildCacheSuite } from './suite/build-cache.ts'
import { buildSuite } from './suite/builds.ts'
import { eventSuite } from './suite/events.ts'
import { metricSuite } from './suite/metrics.ts'
import { peopleSuite } from './suite/people.ts'
import { quarantineSuite } from './suite/quarantine.ts'
import { haveTemplate } from './suite/rows.ts'
import { sandboxCountSuite } from './suite/sandbox-counts.ts'
import { sandboxLifeSuite } from './suite/sandbox-life.ts'
import { sandboxListSuite } from './suite/sandbox-list.ts'
import { sandboxPauseSuite } from './suite/sandbox-pause.ts'
import { secretSuite } from './suite/secrets.ts'
import { sessionSuite } from './suite/sessions.ts'
import { sharedValueSuite } from './suite/shared-values.ts'
import { snapshotSuite } from './suite/snapshots.ts'
import type { StoreTest } from './suite/store-test.ts'
import { tagSuite } from './suite/tags.ts'
import { teamAccessSuite } from './suite/team-access.ts'
import { teamSuite } from './suite/teams.ts'
import { templateListSuite } from './suite/template-list.ts'
import { templateSuite } from './suite/templates.ts'
import { usageSuite } from './suite/usage.ts'
import { volumeSuite } from './suite/volumes.ts'
import { webhookSuite } from './suite/webhooks.ts'

export function storeSuite(
  engine: string,
  openEmpty: (context: TestContext) => Promise<Stores>,
  options: { skip?: string } = {},
): void {
  const storeTest: StoreTest = (behaviour, body) => {
    test(behaviour, async (context) => {
      const stores = await openEmpty(context)
      try {
        await body(stores)
      } finally {
        await stores.close()
      }
    })
  }
  const sandboxTest: StoreTest = (behaviour, body) => {
    storeTest(behaviour, async (stores) => {
      await haveTemplate(stores)
      await body(stores)
    })
  }
  suite(`the stores over ${engine}`, options, (_: SuiteContext) => {
    teamSuite(storeTest)
    teamAccessSuite(storeTest)
    peopleSuite(storeTest)
    sessionSuite(storeTest)
    auditSuite(storeTest)
    templateSuite(storeTest)
    templateListSuite(storeTest)
    sharedValueSuite(storeTest)
    tagSuite(storeTest)
    buildSuite(storeTest)
    buildCacheSuite(storeTest)
    snapshotSuite(storeTest)
    sandboxLifeSuite(sandboxTest)
    sandboxCountSuite(sandboxTest)
    sandboxPauseSuite(sandboxTest)
    sandboxListSuite(storeTest)
    quarantineSuite(sandboxTest)
    metricSuite(storeTest)
    secretSuite(storeTest)
    volumeSuite(sandboxTest)
    eventSuite(storeTest)
    usageSuite(storeTest)
    webhookSuite(storeTest)
  })
}
