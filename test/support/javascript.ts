import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder } from './warren.ts'

/** A folder with just the given package of npm and what it needs, made once and kept in the cache folder. */
export function npmWith(requirement: string): string {
  const folder = join(cacheFolder, `npm-${requirement.replaceAll(/[^a-z0-9.]+/gi, '-')}`)
  const complete = join(folder, 'complete')
  if (!existsSync(complete)) {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{ "private": true }')
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--silent', '--save-exact']
    execFileSync('npm', ['install', ...options, requirement], { cwd: folder, stdio: 'pipe' })
    writeFileSync(complete, '')
  }
  return folder
}
