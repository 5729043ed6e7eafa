import type { ProbeResult } from '../../core/driver.ts'
import type { OciContext } from './context.ts'

export async function probeMachine(_context: OciContext): Promise<ProbeResult> {
  return { usable: true, detail: '' }
}
