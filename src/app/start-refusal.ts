import { AppError } from '../lib/app-error.ts'

/** EX_CONFIG of sysexits.h. The unit of systemd does not start Warren again after it. */
export const refusedStatus = 78

/** Warren cannot start until somebody changes the machine or the settings: the next try would fail in the same way. */
export class StartRefusal extends AppError {}

/** What the settings are rejected with is such a refusal for a start. */
export function refusingStart<T>(readSettings: () => T): T {
  try {
    return readSettings()
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new StartRefusal(error.code, error.message, { cause: error })
  }
}
