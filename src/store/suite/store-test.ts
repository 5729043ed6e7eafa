import type { Stores } from '../stores.ts'

/** Runs the body with empty stores, which are closed after it. */
export type StoreTest = (behaviour: string, body: (stores: Stores) => Promise<void>) => void
