/** Applies a patch as `git diff` writes it. A line of the sources that is not exactly as the patch says is an error. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

type Hunk = { line: number; before: string[]; after: string[] }
type PatchedFile = { path: string; isNew: boolean; hunks: Hunk[] }

export async function applyPatch(patch: string, folder: string): Promise<void> {
  for (const { path, isNew, hunks } of parsePatch(patch)) {
    const file = join(folder, path)
    const lines = isNew ? [''] : (await readFile(file, 'utf8')).split('\n')
    // From the end, so that the line numbers of the hunks before stay right.
    for (const { line, before, after } of hunks.toReversed()) {
      const at = Math.max(0, line - 1)
      const found = lines.splice(at, before.length, ...after)
      if (found.join('\n') !== before.join('\n'))
        throw new Error(`${path} differs at line ${line} from what the patch expects`)
    }
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, lines.join('\n'), isNew ? { flag: 'wx' } : {})
  }
}

export function parsePatch(patch: string): PatchedFile[] {
  const files: PatchedFile[] = []
  let isNew = false
  for (const text of patch.split('\n')) {
    const file = files.at(-1)
    const hunk = file?.hunks.at(-1)
    const [, line] = /^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@/.exec(text) ?? []
    if (text.startsWith('--- ')) isNew = text === '--- /dev/null'
    else if (text.startsWith('+++ b/')) files.push({ path: text.slice('+++ b/'.length), isNew, hunks: [] })
    else if (/^(diff --git|index|new file mode) /.test(text)) continue
    else if (file && line !== undefined) file.hunks.push({ line: Number(line), before: [], after: [] })
    else if (hunk && /^[ +-]/.test(text)) {
      if (!text.startsWith('+')) hunk.before.push(text.slice(1))
      if (!text.startsWith('-')) hunk.after.push(text.slice(1))
    } else if (text !== '') throw new Error(`The patch has a line that Warren does not know: ${text}`)
  }
  return files
}
