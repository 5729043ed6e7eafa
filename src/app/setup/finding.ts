export type Finding = {
  /** warn: Warren runs, but something is worse than it could be. fail: it cannot run. */
  status: 'ok' | 'warn' | 'fail'
  text: string
  /** How to fix it; set whenever the status is not ok. */
  remedy?: string
}

export const ok = (text: string): Finding => ({ status: 'ok', text })
export const warn = (text: string, remedy: string): Finding => ({ status: 'warn', text, remedy })
export const fail = (text: string, remedy: string): Finding => ({ status: 'fail', text, remedy })
