/** COPY and ADD: one step for each source, or a command that writes a heredoc to its place. */
import type { Heredoc, Instruction } from './instructions.ts'
import { shown } from './instructions.ts'
import type { DockerStep } from './step.ts'
import { type KnownValues, literal } from './values.ts'
import { flagsOf, listOf, type Refuse, shellQuote, shellWord, wordOf, wordsOf } from './words.ts'

type CopyContext = { values: KnownValues; user: string; refuse: Refuse }

const isRemote = /^(?:[a-z][a-z0-9+.-]*:\/\/|git@)/i
const isArchive = /\.(?:tar(?:\.\w+)?|tgz|tbz2?|txz|tzst)$/i

export function copySteps(instruction: Instruction, context: CopyContext): DockerStep[] {
  const { line, keyword, heredocs } = instruction
  const { values, refuse } = context
  const { flags, rest } = flagsOf(instruction.rest)
  const { owner, mode } = ownerAndMode(keyword, flags, context)
  const list = listOf(rest, refuse)?.map((word) => wordOf(word, refuse))
  const words = list ?? wordsOf(rest, refuse)
  const target = words.at(-1)
  if (words.length < 2 || !target) return refuse(`${keyword} takes at least one source, and a destination.`)
  if (words.length > 2 && !/(?:\/|^\.\.?)$/.test(target)) {
    refuse(`${keyword} of several sources needs a folder: end the destination with a slash.`)
  }
  return words.slice(0, -1).map((word) => {
    const heredoc = heredocs.find(({ name }) => word.replace(/^<<-?/, '') === name && word.startsWith('<<'))
    if (heredoc) {
      const command = writing(heredoc, target, owner || context.user, mode)
      return { type: 'RUN', args: [command, 'root'], line }
    }
    const source = values.expand(word, refuse)
    if (isRemote.test(source)) refuse(`${keyword} cannot download: use RUN curl, or RUN git clone.`)
    if (keyword === 'ADD' && isArchive.test(source)) {
      refuse(`ADD would unpack ${shown(source)}: use COPY, and RUN tar -xf.`)
    }
    // Paths are relative to the build folder, and nothing outside of it can be copied.
    const path = normalized(source)
    if (source === '' || /^\.\.(?:\/|$)/.test(path)) {
      refuse(`'${shown(source)}' is not within the folder: copy the files there first.`)
    }
    return { type: 'COPY', args: [literal(path), target, owner, mode], line, source: path }
  })
}

/** Without `.` and empty parts; `..` stays only at the beginning. Not of node:path, because browsers run this too. */
function normalized(path: string): string {
  const parts: string[] = []
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue
    if (part === '..' && parts.length > 0 && parts.at(-1) !== '..') parts.pop()
    else parts.push(part)
  }
  return parts.join('/') || '.'
}

function ownerAndMode(keyword: string, flags: [string, string][], { values, refuse }: CopyContext) {
  let owner = ''
  let mode = ''
  for (const [name, value] of flags) {
    const text = () => values.expand(wordOf(value, refuse), refuse)
    if (name === 'chown') owner = text()
    else if (name === 'chmod') mode = text()
    else if (name === 'from') {
      refuse(
        '--from another stage or image cannot be honoured: templates have one stage. Copy from the folder.',
      )
    } else if (name !== 'link') refuse(`${keyword} --${name} cannot be honoured: leave it out.`)
  }
  if (mode !== '' && !/^[0-7]{1,4}$/.test(mode))
    refuse(`--chmod=${shown(mode)} is no mode: write one like 755.`)
  return { owner, mode: mode === '' ? '' : mode.padStart(4, '0') }
}

function writing({ name, body, isLiteral }: Heredoc, target: string, owner: string, mode: string): string {
  // Only variables are expanded in the text; everything else that a shell would expand is escaped.
  const text = isLiteral ? body : body.replace(/\\(?!\$)|`|\$(?![A-Za-z_{])/g, '\\$&')
  return [
    `set -e; target=${shellWord(target)}`,
    `case "$target" in */) target=$target${name} ;; *) if [ -d "$target" ]; then target=$target/${name}; fi ;; esac`,
    'mkdir -p "$(dirname "$target")"',
    `cat > "$target" <<${isLiteral ? `'${name}'` : name}\n${text}${name}`,
    `chown ${shellWord(owner.includes(':') ? owner : `${owner}:`)} "$target"`,
    ...(mode === '' ? [] : [`chmod ${shellQuote(mode)} "$target"`]),
  ].join('\n')
}
