/** A Python with just the given package, made once and kept in the cache folder. */
import { execFileSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from './warren.ts'

export function pythonWith(requirement: string): string {
  const folder = join(cacheFolder, `python-${requirement.replaceAll(/[^a-z0-9.]+/gi, '-')}`)
  const python = join(folder, 'bin/python')
  const complete = join(folder, 'complete')
  if (!existsSync(complete)) {
    execFileSync('python3', ['-m', 'venv', '--clear', folder], { stdio: 'pipe' })
    execFileSync(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', requirement], {
      stdio: 'pipe',
    })
    writeFileSync(complete, '')
  }
  return python
}
