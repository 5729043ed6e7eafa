/** Runs the snapshot tests. */
import { isolations } from '../../../test/support/warren.ts'
import { snapshotDriverSuite } from '../snapshot-suite.ts'
import { runOciSuites } from './suite/runtimes.ts'
import { ociSnapshotSuite } from './suite/snapshot.ts'

for (const isolation of isolations) runOciSuites(isolation, [snapshotDriverSuite, ociSnapshotSuite])
