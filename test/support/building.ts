/** What tests of template builds share: folders to copy from, options with the log collected, and a second team. */
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Sandbox } from 'e2b'
import type { Warren } from './warren.ts'

export type BuildContext = { folder: string; [Symbol.dispose](): void }

/** A folder with these files; a value that begins with `->` is a symbolic link. */
export async function buildContext(files: Record<string, string>): Promise<BuildContext> {
  const folder = mkdtempSync(join(tmpdir(), 'warren-context-'))
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name)
    await mkdir(dirname(path), { recursive: true })
    if (text.startsWith('->')) symlinkSync(text.slice(2), path)
    else await writeFile(path, text)
  }
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) }
}

/** Options of a build that keep every line it told, as text. */
export function listening(warren: Pick<Warren, 'client'>) {
  const lines: string[] = []
  const onBuildLogs = ({ message }: { message: string }) => void lines.push(message)
  return { lines, options: { ...warren.client, onBuildLogs } }
}

export type SecondTeam = { teamID: string; slug: string; client: Warren['client'] }

export async function secondTeam(warren: Warren): Promise<SecondTeam> {
  const asOperator = { headers: { 'X-Admin-Token': warren.adminToken }, key: null }
  const name = `other-${Date.now()}`
  const made = await warren.api('/admin/teams', { ...asOperator, body: { name } })
  const { teamID, slug } = (await made.json()) as { teamID: string; slug: string }
  const keyed = await warren.api(`/admin/teams/${teamID}/api-keys`, { ...asOperator, body: { name: 'k' } })
  const { key } = (await keyed.json()) as { key: string }
  return { teamID, slug, client: { ...warren.client, apiKey: key } }
}

export type Build = { templateID: string; buildID: string; status: string }

/** Newest first. */
export async function buildsOf(warren: Warren, name: string): Promise<Build[]> {
  const { templateID } = (await (await warren.api(`/templates/aliases/${name}`)).json()) as Build
  const { builds } = (await (await warren.api(`/templates/${templateID}`)).json()) as { builds: Build[] }
  return builds.map((build) => ({ ...build, templateID }))
}

/** What a command says in a sandbox of the template, which is gone afterwards. */
export async function sayIn(warren: Warren, template: string, command: string, envs = {}): Promise<string> {
  const sandbox = await Sandbox.create(template, { ...warren.client, timeoutMs: 3_600_000, envs })
  try {
    return (await sandbox.commands.run(command)).stdout
  } finally {
    await sandbox.kill()
  }
}
