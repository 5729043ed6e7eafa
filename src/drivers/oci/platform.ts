import type { OciContext } from './context.ts'

export async function choosePlatform(_context: OciContext): Promise<string> {
  return 'ptrace'
}
