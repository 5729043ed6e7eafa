/** The languages of cells: their names on the wire, and how to start and call their kernels. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AppError } from '../lib/app-error.ts'

export type KernelKind = {
  /** A program that not every template has; without it the language is not available. */
  needs?: string
  /** The program and its arguments. `folder` is the folder of the kernels. */
  command: (folder: string) => string[]
  /** Variables that the program needs from its start. */
  variables: Record<string, string>
  protocol: 'json' | 'bash'
  /** True: an interrupt is also sent through a separate pipe, because a signal does not end a busy cell. */
  hasControlPipe: boolean
}

const rscript = '/usr/bin/Rscript'
const java = '/usr/bin/java'

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

const r: KernelKind = {
  needs: rscript,
  command: (folder) => [...withPipes(folder), rscript, '--vanilla', join(folder, 'r/kernel.R')],
  variables: { LANG: 'C.UTF-8' },
  protocol: 'json',
  hasControlPipe: false,
}

const javaShell: KernelKind = {
  needs: java,
  command: (folder) => [
    ...withPipes(folder),
    java,
    ...['-XX:+UseSerialGC', '-Xshare:auto', '--add-opens=java.base/java.util=ALL-UNNAMED'],
    ...['-Djava.awt.headless=true', '-cp', join(folder, 'java/classes'), 'warren.Kernel'],
  ],
  variables: { LANG: 'C.UTF-8' },
  protocol: 'json',
  hasControlPipe: false,
}

const withPipes = (folder: string) => ['bash', join(folder, 'with-pipes.sh')]

const kinds: Record<string, KernelKind> = {
  python,
  javascript,
  typescript: javascript,
  bash,
  r,
  java: javaShell,
}
const otherNames: Record<string, string> = {
  js: 'javascript',
  ts: 'typescript',
  python3: 'python',
  sh: 'bash',
}

export const defaultLanguage = 'python'

/** The name that answers contain. */
export function normalLanguage(given: string | null | undefined): string {
  const name = (given ?? defaultLanguage).trim().toLowerCase()
  return otherNames[name] ?? name
}

/** Undefined if no kernel here runs that language. */
export function kernelKind(language: string): KernelKind | undefined {
  const kind = Object.hasOwn(kinds, language) ? kinds[language]! : undefined
  return kind && isInstalled(kind) ? kind : undefined
}

const isInstalled = ({ needs }: KernelKind) => needs === undefined || existsSync(needs)

export function noKernel(language: string): AppError {
  const there = Object.keys(kinds).filter((name) => isInstalled(kinds[name]!))
  const full = Object.hasOwn(kinds, language)
    ? ' Its operator can add it: warren template add code-interpreter --full.'
    : ''
  const what = `There is no kernel for '${language}' in this template. There are: ${there.join(', ')}.${full}`
  return new AppError('unavailable', what)
}
