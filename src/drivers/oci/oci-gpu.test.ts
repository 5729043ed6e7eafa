/** Sandboxes with GPUs on machines that have none; test/gpu has what needs a real one. */
import { isolations } from '../../../test/support/warren.ts'
import { gpuSuite } from './suite/gpu.ts'
import { gpuMemorySuite } from './suite/gpu-memory.ts'
import { runOciSuites } from './suite/runtimes.ts'

for (const isolation of isolations) runOciSuites(isolation, [gpuSuite, gpuMemorySuite])
