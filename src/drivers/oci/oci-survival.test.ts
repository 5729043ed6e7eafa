/** Runs the tests of what happens to sandboxes when their Warren process is killed. */
import { isolations } from '../../../test/support/warren.ts'

import { runOciSuites } from './suite/runtimes.ts'
import { survivalSuite } from './suite/survival.ts'

for (const isolation of isolations) runOciSuites(isolation, [survivalSuite])
