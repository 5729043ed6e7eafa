/** A job that runs a development tool over the project: it passes or fails as a whole, always the same. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import type { Job } from './jobs.ts'

const repoFolder = resolve(import.meta.dirname, '../..')

export function checkJob(name: string, command: string, args: string[]): Job {
  const job: Job = {
    name,
    repeatable: false,
    async run(write) {
      const started = Date.now()
      const child = spawn(join(repoFolder, 'node_modules/.bin', command), args, {
        cwd: repoFolder,
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      child.stdout.setEncoding('utf8').on('data', write)
      child.stderr.setEncoding('utf8').on('data', write)
      const [code, signal] = await once(child, 'close')
      const failures = code === 0 ? [] : [{ name: `${command} ended with ${signal ?? code}`, why: '' }]
      const failed = failures.length
      return [{ job, ms: Date.now() - started, passed: 1 - failed, failed, skipped: 0, failures }]
    },
  }
  return job
}
