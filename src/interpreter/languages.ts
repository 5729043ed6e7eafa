/** The languages of cells: their names on the wire, and how the kernel of each is started and asked. */
import { join } from 'node:path'

export type KernelKind = {
  /** The program and its arguments. `folder` is where the kernels lie. */
  command: (folder: string) => string[]
  /** Variables that the program needs from its start. */
  variables: Record<string, string>
  protocol: 'json' | 'bash'
  /** True: an interrupt also goes through a pipe of its own, because a signal does not end a busy cell. */
  hasControlPipe: boolean
}

const python: KernelKind = {
  command: (folder) => ['python3', '-u', join(folder, 'python/kernel.py')],
  variables: { MPLBACKEND: 'module://matplotlib_inline.backend_inline', PYTHONIOENCODING: 'utf-8' },
  protocol: 'json',
  hasControlPipe: false,
}

const javascript: KernelKind = {
  command: (folder) => [
    process.execPath,
    '--disable-warning=ExperimentalWarning',
    join(folder, 'javascript.cjs'),
  ],
  variables: {},
  protocol: 'json',
  hasControlPipe: true,
}

const bash: KernelKind = {
  command: (folder) => ['bash', '--noprofile', '--noediting', '--rcfile', join(folder, 'bash.sh'), '-i'],
  variables: {},
  protocol: 'bash',
  hasControlPipe: false,
}

const kinds: Record<string, KernelKind> = { python, javascript, typescript: javascript, bash }
const otherNames: Record<string, string> = {
  js: 'javascript',
  ts: 'typescript',
  python3: 'python',
  sh: 'bash',
}

export const defaultLanguage = 'python'
export const defaultFolder = '/home/user'

/** The name that answers carry. */
export function normalLanguage(given: string | null | undefined): string {
  const name = (given ?? defaultLanguage).trim().toLowerCase()
  return otherNames[name] ?? name
}

/** Undefined: nothing here runs that language. */
export function kernelKind(language: string): KernelKind | undefined {
  return Object.hasOwn(kinds, language) ? kinds[language] : undefined
}

export const knownLanguages: readonly string[] = Object.keys(kinds)
