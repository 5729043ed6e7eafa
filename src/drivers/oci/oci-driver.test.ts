/** Runs the suites for all drivers, and the tests of isolation and limits. */
import { isolations } from '../../../test/support/warren.ts'
import { driverSuite } from '../driver-suite.ts'
import { isolationSuite } from './suite/isolation.ts'
import { limitsSuite } from './suite/limits.ts'
import { runOciSuites } from './suite/runtimes.ts'

for (const isolation of isolations) runOciSuites(isolation, [driverSuite, isolationSuite, limitsSuite])
