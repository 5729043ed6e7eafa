/** Runs the tests of kernel resources and fork bombs. */
import { isolations } from '../../../test/support/warren.ts'
import { forkBombSuite } from './suite/fork-bomb.ts'
import { kernelResourcesSuite } from './suite/kernel-resources.ts'
import { runOciSuites } from './suite/runtimes.ts'

for (const isolation of isolations) runOciSuites(isolation, [kernelResourcesSuite, forkBombSuite])
