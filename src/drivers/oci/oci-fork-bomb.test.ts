/** A fork bomb at the limits that operators have. */
import { isolations } from '../../../test/support/warren.ts'
import { forkBombSuite } from './suite-fork-bomb.ts'
import { runOciSuites } from './suite-runtimes.ts'

for (const isolation of isolations) runOciSuites(isolation, [forkBombSuite])
