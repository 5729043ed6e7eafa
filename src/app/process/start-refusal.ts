import { AppError } from '../../lib/app-error.ts'

/** EX_CONFIG of sysexits.h. The systemd unit does not restart Warren after it. */
export const refusedStatus = 78

/**
 * Warren cannot start until somebody changes the machine or the settings: another attempt would fail in the
 * same way.
 */
export class StartRefusal extends AppError {}

/** Turns a rejection of the settings into a refusal to start. */
export function refusingStart<T>(readSettings: () => T): T {
  try {
    return readSettings()
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new StartRefusal(error.code, error.message, { cause: error })
  }
}
