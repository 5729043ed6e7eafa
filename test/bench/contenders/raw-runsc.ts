import { type RawPlace, type RawRuntime, rawRuntime } from './raw-runtime.ts'

/** On the platform that Warren chose, and with the files where Warren has them: in the host's overlay. */
export const rawRunsc = (place: Omit<RawPlace, 'command'>, runsc: string, platform: string): RawRuntime =>
  rawRuntime('raw runsc', {
    ...place,
    command: [runsc, `--platform=${platform}`, '--network=sandbox', '--overlay2=none'],
  })
