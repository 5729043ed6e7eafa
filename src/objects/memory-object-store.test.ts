import { MemoryObjectStore } from './memory-object-store.ts'
import { objectStoreSuite } from './object-store-suite.ts'

objectStoreSuite('in memory', async () => new MemoryObjectStore())
