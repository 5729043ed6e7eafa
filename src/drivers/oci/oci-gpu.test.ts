/** Runs the GPU tests for machines without a GPU; test/gpu has those that need one. */
import { isolations } from '../../../test/support/warren.ts'
import { gpuSuite } from './suite/gpu.ts'
import { gpuMemorySuite } from './suite/gpu-memory.ts'
import { runOciSuites } from './suite/runtimes.ts'

for (const isolation of isolations) runOciSuites(isolation, [gpuSuite, gpuMemorySuite])
