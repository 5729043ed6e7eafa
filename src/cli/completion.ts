/** The commands as data: `warren help` shows them, and shells complete words by them. */
import { asksForHelp, takeWords, UsageError } from './arguments.ts'

export type CommandEntry = { name: string; use: string; does: string; verbs?: readonly string[] }

const command = 'warren completion'
const usage = `Usage:
  warren completion bash|zsh|fish

bash:  warren completion bash > /etc/bash_completion.d/warren
zsh:   warren completion zsh > "\${fpath[1]}/_warren"
fish:  warren completion fish > ~/.config/fish/completions/warren.fish`

export async function completionCommand(
  args: readonly string[],
  commands: readonly CommandEntry[],
): Promise<string> {
  if (asksForHelp(args)) return usage
  const [shell] = takeWords(args, ['bash, zsh or fish'], command)
  if (shell === 'bash') return bash(commands)
  if (shell === 'zsh') return zsh(commands)
  if (shell === 'fish') return fish(commands)
  throw new UsageError(`'${shell}' is no shell that Warren knows: bash, zsh or fish.`, command)
}

const names = (commands: readonly CommandEntry[]) => commands.map(({ name }) => name).join(' ')
const withVerbs = (commands: readonly CommandEntry[]) =>
  commands.flatMap(({ name, verbs }) => (verbs ? [{ name, verbs: verbs.join(' ') }] : []))

/** Of one for which Warren has no word, the shell completes files. */
function bash(commands: readonly CommandEntry[]): string {
  const cases = withVerbs(commands).map(
    ({ name, verbs }) => `    ${name}) COMPREPLY=($(compgen -W '${verbs} --help' -- "$word")) ;;`,
  )
  return `_warren() {
  local word=\${COMP_WORDS[COMP_CWORD]}
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${names(commands)} --help --version' -- "$word"))
    return
  fi
  if [ "$COMP_CWORD" -gt 2 ]; then return; fi
  case \${COMP_WORDS[1]} in
${cases.join('\n')}
  esac
}
complete -o default -F _warren warren`
}

function zsh(commands: readonly CommandEntry[]): string {
  const described = commands.map(({ name, does }) => `    '${name}:${does.replaceAll("'", "'\\''")}'`)
  const cases = withVerbs(commands).map(({ name, verbs }) => `    ${name}) _values verb ${verbs} ;;`)
  return `#compdef warren
_warren() {
  local -a commands=(
${described.join('\n')}
  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  if (( CURRENT > 3 )); then _files; return; fi
  case \${words[2]} in
${cases.join('\n')}
    *) _files ;;
  esac
}
_warren "$@"`
}

function fish(commands: readonly CommandEntry[]): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "\\'")}'`
  const first = commands.map(
    ({ name, does }) => `complete -c warren -n __fish_use_subcommand -a ${name} -d ${quoted(does)}`,
  )
  const verbs = withVerbs(commands).map(
    ({ name, verbs }) => `complete -c warren -n '__fish_seen_subcommand_from ${name}' -a ${quoted(verbs)}`,
  )
  return [...first, ...verbs].join('\n')
}
