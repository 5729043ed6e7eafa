import { type RawPlace, type RawRuntime, rawRuntime } from './raw-runtime.ts'

export const rawRunc = (place: Omit<RawPlace, 'command'>): RawRuntime =>
  rawRuntime('raw runc', { ...place, command: ['runc'] })
